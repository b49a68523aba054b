"""JDBC's patterns, the walk through namespaces, and types as they are shown."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from sparksql.gateway.catalog.columns import simple_type
from sparksql.gateway.catalog.name_patterns import MAX_NAMESPACES, NamePattern, escaped, find_namespaces, may_lie_below
from tests.support.work import LINEAR, growth

names = st.text(st.sampled_from("aAb_%\\.*|é\n"), max_size=8)
patterns = st.text(st.sampled_from("aAb_%\\.*|é\n"), max_size=8)
Pieces = tuple[tuple[str, bool], ...]


@cache
def slowly(pieces: Pieces, name: str) -> bool:
    """What a pattern means, without any cleverness."""
    if not pieces:
        return not name
    (character, is_wildcard), *rest = pieces
    if is_wildcard and character == "%":
        return slowly(tuple(rest), name) or (name != "" and slowly(pieces, name[1:]))
    return name != "" and (is_wildcard or name[0].lower() == character.lower()) and slowly(tuple(rest), name[1:])


@given(pattern=patterns, name=names)
def test_a_name_pattern_matches_as_a_naive_matcher_does(pattern: str, name: str) -> None:
    parsed = NamePattern.parse(pattern)
    assert parsed.matches(name) is slowly(parsed.pieces, name)


@given(name=names, other=names)
def test_an_escaped_name_matches_itself_alone(name: str, other: str) -> None:
    pattern = NamePattern.parse(escaped(name))
    assert pattern.matches(name)
    assert pattern.literal_start == name
    assert pattern.matches(other) is (other.lower() == name.lower())


@given(pattern=patterns, name=names)
def test_the_pattern_sent_to_spark_covers_all_matching_names(pattern: str, name: str) -> None:
    parsed = NamePattern.parse(pattern)
    if parsed.matches(name):
        as_spark = NamePattern.parse("%".join(escaped(part) for part in parsed.stars.split("*")))
        assert as_spark.matches(name)
        assert name.lower().startswith(parsed.literal_start.lower())


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (None, ["", "a", "a\nb"], []),
        ("%", ["", "a", "a.b"], []),
        ("", [""], ["a"]),
        ("t_1", ["tx1", "T_1"], ["t1", "tx12"]),
        (r"t\_1", ["t_1"], ["tx1"]),
        (r"50\%", ["50%"], ["50", "500"]),
        (r"a\\b", [r"a\b"], ["ab"]),
        ("a\\", ["a\\"], ["a"]),
        ("%ab%", ["ab", "xABy"], ["ba"]),
        ("a%a", ["aa", "aba"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_a_name_pattern_takes_wildcards_and_escapes_as_jdbc_does(
    pattern: str | None, matching: list[str], other: list[str]
) -> None:
    parsed = NamePattern.parse(pattern)
    assert [name for name in (*matching, *other) if parsed.matches(name)] == matching


def test_a_hostile_pattern_costs_work_in_proportion_to_its_length() -> None:
    def match(count: int) -> None:
        assert not NamePattern.parse("%a" * count + "%b").matches("a" * 5 * count)

    assert growth(match, 40) < LINEAR


paths = st.lists(st.text(st.sampled_from("aB_"), min_size=1, max_size=2), min_size=1, max_size=3).map(tuple)


@given(found=st.sets(paths, max_size=8), pattern=st.none() | patterns)
def test_the_walk_finds_each_matching_namespace_once(found: set[tuple[str, ...]], pattern: str | None) -> None:
    tree = {path[:level] for path in found for level in range(1, len(path) + 1)}
    asked: list[tuple[str, ...]] = []

    def children(parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        asked.append(parent)
        return sorted(path for path in tree if path[:-1] == parent)

    parsed = NamePattern.parse(pattern)
    walked = find_namespaces(children, parsed)
    assert sorted(walked) == sorted(path for path in tree if parsed.matches(".".join(path)))
    assert len(set(asked)) == len(asked)


def test_a_name_without_wildcards_is_looked_up_on_its_path_alone() -> None:
    pattern = NamePattern.parse("a.b")
    assert may_lie_below(("a",), pattern)
    assert not may_lie_below(("ab",), pattern)
    assert not may_lie_below(("a", "b"), pattern)


def test_the_walk_ends_in_a_catalog_without_end() -> None:
    looked: list[tuple[str, ...]] = []

    def children(parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        looked.append(parent)
        return [("again",) if len(parent) > 50 else (*parent, "again")]

    assert len(find_namespaces(children, NamePattern.parse(None))) == 51
    looked.clear()
    assert (
        len(find_namespaces(lambda parent: [(*parent[:1], str(len(looked))), ("x", "y")], NamePattern.parse(None)))
        <= MAX_NAMESPACES
    )


atomic = st.sampled_from(
    [
        types.ByteType(), types.ShortType(), types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType(),
        types.StringType(), types.CharType(3), types.VarcharType(9), types.BinaryType(), types.BooleanType(),
        types.DateType(), types.TimestampType(), types.TimestampNTZType(), types.DecimalType(10, 2), types.NullType(),
        types.DayTimeIntervalType(0, 3), types.YearMonthIntervalType(0, 1), types.VariantType(), types.CalendarIntervalType(),
    ]
)  # fmt: skip


def nested(inner: st.SearchStrategy[types.DataType]) -> st.SearchStrategy[types.DataType]:
    fields = st.lists(st.builds(types.StructField, st.sampled_from("ab"), inner), max_size=3)
    return (
        st.builds(types.ArrayType, inner) | st.builds(types.MapType, inner, inner) | st.builds(types.StructType, fields)
    )


@given(data_type=st.recursive(atomic, nested, max_leaves=6))
def test_types_are_shown_as_spark_shows_them(data_type: types.DataType) -> None:
    assert simple_type(json.loads(data_type.json())) == data_type.simpleString()


def test_a_user_defined_type_is_shown_as_its_sql_type() -> None:
    assert simple_type({"type": "udt", "class": "no.such.Class", "pyClass": "os.x", "sqlType": "long"}) == "bigint"

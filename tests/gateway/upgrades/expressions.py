"""Expressions drawn at random, by types, that can be reworded into others of the same meaning or changed into others of their type.

A form is a text with numbered places. Forms of one group mean the same, bit by bit; forms of one table take and give the same types.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

INT, TEXT, BOOL, TIME, VALUE = "int", "text", "bool", "time", "value"
Group = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """An expression of a type: a form and what stands in its places."""

    type: str
    form: str
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        return self.form.format(*(part.text for part in self.parts))

    def of(self, alias: str) -> Part:
        """The same with columns of one side of a join."""
        form = self.form if self.parts else _COLUMN.sub(rf"{alias}.\1", self.form)
        return replace(self, form=form, parts=tuple(part.of(alias) for part in self.parts))


LEAVES: Mapping[str, tuple[str, ...]] = {
    INT: ("amount", "price", "amount", "price", "0", "1", "3", "20"),
    TEXT: ("country", "city", "country", "city", "'de'", "'b'", "j"),
    BOOL: ("flag", "flag", "(amount > 3)", "(price > 20)", "(city LIKE 'b%')"),
    TIME: ("ts", "seen"),
}
_COLUMN = re.compile(r"\b(amount|price|country|city|j|flag|ts|seen|region)\b")

# What each type is made of: types of the places, and the groups.
FORMS: Mapping[str, Mapping[tuple[str, ...], tuple[Group, ...]]] = {
    INT: {
        (INT, INT): (
            ("({0} + {1})", "({1} + {0})"),
            ("({0} * {1})", "({1} * {0})"),
            ("({0} & {1})", "({1} & {0})"),
            ("({0} ^ {1})", "({1} ^ {0})"),
            ("coalesce({0}, {1})", "nvl({0}, {1})", "ifnull({0}, {1})"),
            ("nullif({0}, {1})",),
            ("({0} - {1})",),
            ("try_add({0}, {1})",),
            ("try_subtract({0}, {1})",),
            ("greatest({0}, {1})",),
            ("least({0}, {1})",),
            ("pmod({0}, 7)",),
        ),
        (BOOL, INT, INT): (
            ("IF({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END"),
            ("IF({0}, {2}, {1})", "CASE WHEN {0} THEN {2} ELSE {1} END"),
        ),
        (BOOL, INT): (
            ("IF({0}, {1}, NULL)", "CASE WHEN {0} THEN {1} END", "CASE WHEN {0} THEN {1} ELSE NULL END"),
            ("IF({0}, NULL, {1})",),
        ),
        (INT,): (("abs({0})",), ("({0} % 3)",), ("({0} % 2)",), ("(0 - {0})",), ("size(array({0}, {0} % 2))",)),
        (TEXT,): (
            ("length({0})", "char_length({0})", "len({0})"),
            ("ascii({0})",),
            ("(hash({0}) % 3)",),
            ("instr({0}, 'e')",),
            ("try_cast({0} AS INT)",),
            ("from_json({0}, 'a INT').a",),
            ("from_json({0}, 'b INT').b",),
        ),
        (TIME,): (("minute({0})",), ("second({0})",), ("hour({0})",), ("day({0})", "dayofmonth({0})")),
    },
    BOOL: {
        (INT, INT): (
            ("({0} < {1})", "({1} > {0})"),
            ("({0} <= {1})", "({1} >= {0})"),
            ("({0} = {1})", "({1} = {0})", "({0} == {1})"),
            ("({0} <=> {1})", "({1} <=> {0})"),
            ("({0} <> {1})",),
        ),
        (INT, INT, INT): (
            ("({0} BETWEEN {1} AND {2})", "({0} >= {1} AND {0} <= {2})", "({2} >= {0} AND {1} <= {0})"),
            ("({0} IN ({1}, {2}))", "({0} IN ({2}, {1}))"),
            ("({0} NOT IN ({1}, {2}))",),
        ),
        (BOOL, BOOL): (("({0} AND {1})", "({1} AND {0})"), ("({0} OR {1})", "({1} OR {0})"), ("({0} <> {1})",)),
        (BOOL,): (("(NOT {0})", "(! {0})"), ("({0} IS TRUE)",), ("({0} IS NOT NULL)",)),
        (TEXT,): (
            ("({0} LIKE 'b%')",),
            ("({0} LIKE '%e%')",),
            ("({0} LIKE ANY ('d%', 'b%'))",),
            ("({0} LIKE ANY ('d%', 'p%'))",),
            ("({0} RLIKE '^[a-m]')",),
            ("({0} IS NULL)", "isnull({0})"),
        ),
        (TEXT, TEXT): (("({0} = {1})", "({1} = {0})"), ("({0} < {1})", "({1} > {0})"), ("contains({0}, {1})",)),
        (TIME, TIME): (("({0} < {1})", "({1} > {0})"), ("({0} <= {1})", "({1} >= {0})")),
    },
    TEXT: {
        (TEXT,): (
            ("upper({0})", "ucase({0})"),
            ("lower({0})", "lcase({0})"),
            ("substr({0}, 1, 2)", "substring({0}, 1, 2)"),
            ("substr({0}, 2, 2)",),
            ("reverse({0})",),
            ("from_csv({0}, 'a STRING').a",),
            ("get_json_object({0}, '$.a')",),
            ("get_json_object({0}, '$.b')",),
            ("translate({0}, 'ab', 'ba')",),
            ("CAST(transform(array({0}), x -> x) AS STRING)", "CAST(transform(array({0}), y -> y) AS STRING)"),
        ),
        (TEXT, TEXT): (
            ("concat({0}, {1})", "({0} || {1})"),
            ("concat({1}, {0})",),
            ("coalesce({0}, {1})", "nvl({0}, {1})"),
            ("CAST(array({0}, {1}) AS STRING)",),
            ("CAST(named_struct('a', {0}, 'b', {1}) AS STRING)",),
            ("to_json(named_struct('a', {0}, 'b', {1}))",),
            ("to_json(named_struct('b', {0}, 'a', {1}))",),
        ),
        (BOOL, TEXT, TEXT): (("IF({0}, {1}, {2})", "CASE WHEN {0} THEN {1} ELSE {2} END"),),
        (INT,): (("CAST({0} AS STRING)", "string({0})", "({0} :: STRING)"), ("hex({0})",), ("bin({0})",)),
        (TIME,): (
            ("date_format({0}, 'mm:ss')",),
            ("date_format({0}, 'HH:mm')",),
            ("date_format({0}, 'D')",),
            ("CAST({0} AS STRING)", "string({0})"),
            ("CAST(to_timestamp(CAST({0} AS STRING), 'yyyy-MM-dd HH:mm:ss') AS STRING)",),
        ),
    },
    TIME: {
        (TIME,): (
            ("({0} + INTERVAL '60' SECOND)", "({0} + INTERVAL '1' MINUTE)"),
            ("({0} + INTERVAL '61' SECOND)",),
            ("({0} - INTERVAL '1' MINUTE)", "({0} - INTERVAL '60' SECOND)"),
            ("date_trunc('MINUTE', {0})", "date_trunc('minute', {0})"),
            ("date_trunc('DAY', {0})",),
        ),
    },
}  # fmt: skip
# Every function of Spark's registry that aggregates, over the types that it takes; see UNTRIED for those that are missing.
AGGREGATES: Mapping[tuple[str, ...], tuple[Group, ...]] = {
    (INT,): (
        ("sum({0})",), ("try_sum({0})",), ("avg({0})", "mean({0})"), ("try_avg({0})",), ("min({0})",), ("max({0})",),
        ("count({0})",), ("count(*)", "count(1)"), ("stddev({0})", "std({0})", "stddev_samp({0})"), ("stddev_pop({0})",),
        ("variance({0})", "var_samp({0})"), ("var_pop({0})",), ("skewness({0})",), ("kurtosis({0})",),
        ("bit_and({0})",), ("bit_or({0})",), ("bit_xor({0})",), ("median({0})",), ("percentile({0}, 0.5)",),
        ("percentile({0}, 0.9)",), ("percentile_cont(0.3) WITHIN GROUP (ORDER BY {0})",),
        ("percentile_disc(0.3) WITHIN GROUP (ORDER BY {0})",), ("percentile_disc(0.3) WITHIN GROUP (ORDER BY {0} DESC)",),
        ("approx_percentile({0}, 0.5)", "percentile_approx({0}, 0.5)"), ("approx_percentile({0}, 0.7)",),
        ("approx_count_distinct({0})",), ("approx_count_distinct({0}, 0.2)",), ("collect_list({0})", "array_agg({0})"),
        ("collect_set({0})",), ("first({0})", "first_value({0})"), ("first({0}, true)", "first({0}) IGNORE NULLS"),
        ("last({0})", "last_value({0})"), ("any_value({0})",), ("mode({0})",), ("mode() WITHIN GROUP (ORDER BY {0})",),
        ("histogram_numeric({0}, 3)",), ("histogram_numeric({0}, 4)",), ("count_min_sketch({0}, 0.5d, 0.5d, 1)",),
        ("count_min_sketch({0}, 0.5d, 0.5d, 2)",), ("approx_top_k({0}, 2)",), ("approx_top_k({0}, 3)",),
        ("approx_top_k_estimate(approx_top_k_accumulate({0}), 2)",), ("hll_sketch_estimate(hll_sketch_agg({0}))",),
        ("hll_sketch_estimate(hll_sketch_agg({0}, 5))",), ("theta_sketch_estimate(theta_sketch_agg({0}))",),
        ("kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint({0}), 0.5D)",),
        ("kll_sketch_get_quantile_double(kll_sketch_agg_double(double({0})), 0.5D)",),
        ("kll_sketch_get_quantile_float(kll_sketch_agg_float(float({0})), 0.5D)",),
        ("bitmap_count(bitmap_construct_agg(bitmap_bit_position(abs({0}))))",),
    ),
    (INT, INT): (
        ("max_by({0}, {1})",), ("min_by({0}, {1})",), ("max_by({1}, {0})",), ("corr({0}, {1})",), ("covar_pop({0}, {1})",),
        ("covar_samp({0}, {1})",), ("regr_avgx({0}, {1})",), ("regr_avgy({0}, {1})",), ("regr_count({0}, {1})",),
        ("regr_intercept({0}, {1})",), ("regr_r2({0}, {1})",), ("regr_slope({0}, {1})",), ("regr_sxx({0}, {1})",),
        ("regr_sxy({0}, {1})",), ("regr_syy({0}, {1})",), ("sum({0} * 2 + {1})", "sum({1} + {0} * 2)"),
    ),
    (BOOL,): (
        ("bool_and({0})", "every({0})"), ("bool_or({0})", "any({0})", "some({0})"), ("count_if({0})",),
        ("count(*) FILTER (WHERE {0})", "count(1) FILTER (WHERE {0})"), ("sum(amount) FILTER (WHERE {0})",),
    ),
    (TEXT,): (
        ("max({0})",), ("min({0})",), ("count({0})",), ("approx_count_distinct({0})",),
        ("listagg({0}, ',')", "string_agg({0}, ',')"), ("listagg({0}, ';')",), ("listagg({0}, ',') WITHIN GROUP (ORDER BY {0})",),
        ("(hash(max({0})) % 5)",), ("collect_set({0})",),
    ),
    (INT, BOOL): (
        ("sum(IF({1}, {0}, NULL))", "sum(CASE WHEN {1} THEN {0} END)"), ("sum({0}) FILTER (WHERE {1})",),
        ("avg({0}) FILTER (WHERE {1})", "mean({0}) FILTER (WHERE {1})"), ("max({0}) FILTER (WHERE {1})",),
    ),
}  # fmt: skip
# Not drawn: they take what another aggregate has made, or GROUPING SETS.
UNTRIED = frozenset(
    {
        *("approx_top_k_combine", "bitmap_and_agg", "bitmap_or_agg", "hll_union_agg", "theta_union_agg"),
        *("kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float", "theta_intersection_agg"),
        *("grouping", "grouping_id"),
    }
)


def forms_of(type_: str) -> Mapping[tuple[str, ...], tuple[Group, ...]]:
    return AGGREGATES if type_ == VALUE else FORMS[type_]


def expression(drawn: random.Random, type_: str, depth: int) -> Part:
    if type_ != VALUE and (depth == 0 or drawn.random() < 0.25):
        return Part(type_, drawn.choice(LEAVES[type_]))
    places = drawn.choice(list(forms_of(type_)))
    return _filled(drawn, type_, places, depth)


def _filled(drawn: random.Random, type_: str, places: tuple[str, ...], depth: int) -> Part:
    form = drawn.choice(drawn.choice(forms_of(type_)[places]))
    return Part(type_, form, tuple(expression(drawn, each, max(depth - 1, 0)) for each in places))


def reworded(drawn: random.Random, part: Part) -> Part | None:
    """The same meaning in other words; None where there are none."""
    found = [(path, other) for path, node in _nodes(part) for other in _others_of_group(node)]
    if not found:
        return None
    path, other = drawn.choice(found)
    return _replaced(part, path, other)


def changed(drawn: random.Random, part: Part) -> Part:
    """Another expression of the type: one of its parts is another one. It may happen to mean the same."""
    path, node = drawn.choice(list(_nodes(part)))
    places = tuple(each.type for each in node.parts)
    if places and drawn.random() < 0.6:
        form = drawn.choice(drawn.choice(forms_of(node.type)[places]))
        return _replaced(part, path, replace(node, form=form))
    if node.type == VALUE:
        return _replaced(part, path, _filled(drawn, VALUE, places, 1))
    return _replaced(part, path, expression(drawn, node.type, 1))


def has_columns(part: Part) -> bool:
    return any(not node.parts and _COLUMN.search(node.form) for _, node in _nodes(part))


def _others_of_group(node: Part) -> Iterator[Part]:
    places = tuple(each.type for each in node.parts)
    for group in forms_of(node.type).get(places, ()):
        if node.form in group:
            yield from (replace(node, form=form) for form in group if form != node.form)


def _nodes(part: Part, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Part]]:
    yield path, part
    for index, each in enumerate(part.parts):
        yield from _nodes(each, (*path, index))


def _replaced(part: Part, path: tuple[int, ...], other: Part) -> Part:
    if not path:
        return other
    parts = list(part.parts)
    parts[path[0]] = _replaced(parts[path[0]], path[1:], other)
    return replace(part, parts=tuple(parts))

"""Types of columns: which go out as they are, and the text that names them."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from sparksql.gateway.frontends.rest.models import TypeRoot
from sparksql.gateway.frontends.rest.types import logical_type
from sparksql.gateway.results.types import is_carried, type_text

ODD_NAMES = ("variant", "interval", "void", "time(", "geometry", "a:b", "a,b", "<x>", "a b", "", "`", "``a", "(int)")


def struct(name: str, data_type: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, data_type)])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_row_goes_out_as_one_whatever_its_fields_are_called(name: str) -> None:
    nested = t.ArrayType(struct(name, t.StringType()))
    assert is_carried(nested)
    logical = logical_type(type_text(nested))
    assert logical.type is TypeRoot.ARRAY and logical.element_type is not None
    assert [field.name for field in logical.element_type.row_fields or ()] == [name]


@pytest.mark.parametrize(
    "data_type",
    [
        t.CalendarIntervalType(), t.DayTimeIntervalType(), t.YearMonthIntervalType(), t.VariantType(), t.TimeType(),
        t.NullType(), t.GeometryType(4326), t.GeographyType(4326),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_that_arrow_does_not_carry_is_text_wherever_it_is(data_type: t.DataType) -> None:
    integer = t.IntegerType()
    for made in (
        data_type, struct("f", data_type), t.ArrayType(data_type), t.MapType(integer, data_type), t.MapType(data_type, integer),
        t.ArrayType(struct("f", t.MapType(integer, t.ArrayType(data_type)))),
    ):  # fmt: skip
        assert not is_carried(made)


def test_fields_of_one_name_make_a_row_text() -> None:
    two = t.StructType([t.StructField("a", t.IntegerType()), t.StructField("A", t.IntegerType())])
    assert not is_carried(two)
    assert not is_carried(t.MapType(t.StringType(), t.ArrayType(two)))


@pytest.mark.parametrize(
    "data_type",
    [
        t.DecimalType(10, 2), t.StringType("UNICODE"), t.VarcharType(3), t.StructType(), t.VariantType(),
        t.ArrayType(t.MapType(t.StringType(), t.StructType().add("a", t.IntegerType()).add("b c", t.DateType()))),
    ],
    ids=str,
)  # fmt: skip
def test_the_text_of_a_type_is_sparks_simple_string(data_type: t.DataType) -> None:
    assert type_text(data_type) == data_type.simpleString()

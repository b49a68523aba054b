"""Field types that several kinds share: names, references, quantities, durations, and Spark configuration."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from sparksql.api.base import ApiModel, cel
from sparksql.api.names import MAX_NAME_LENGTH
from sparksql.api.quantities import CPU_PATTERN, MEMORY_PATTERN, cpu_millis, memory_mib

INT32_MAX = 2**31 - 1
MAX_SQL_LENGTH = 262_144  # of a text in a manifest
SAFE_INT_MAX = 2**53 - 1  # the API server compares bounds as floats, where 2**63 - 1 overflows
YEAR_SECONDS = 366 * 24 * 3600
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_NAME_MESSAGE = "write the name alone, of lower-case letters, digits and '-', without a namespace before it"


def _checked_name(value: str) -> str:
    if re.fullmatch(DNS_LABEL, value) is None:
        raise ValueError(_NAME_MESSAGE)
    return value


ResourceName = Annotated[
    str,
    AfterValidator(_checked_name),
    Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        json_schema_extra={"x-kubernetes-validations": [cel(f"self.matches('{DNS_LABEL}')", _NAME_MESSAGE)]},
    ),
]
"""Name of one of our objects."""

_PARAMETER_NAME = "^[A-Za-z_][A-Za-z0-9_]*$"
_PARAMETER_NAME_MESSAGE = (
    "write the parameter's name without the colon, of letters, digits and '_', for instance day for the marker :day"
)


def _checked_parameter_name(value: str) -> str:
    if re.fullmatch(_PARAMETER_NAME, value) is None:
        raise ValueError(_PARAMETER_NAME_MESSAGE)
    return value


ParameterName = Annotated[
    str,
    AfterValidator(_checked_parameter_name),
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra={
            "x-kubernetes-validations": [cel(f"self.matches('{_PARAMETER_NAME}')", _PARAMETER_NAME_MESSAGE)]
        },
    ),
]


ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
"""Name of any Kubernetes object."""
Seconds = Annotated[int, Field(ge=0, le=YEAR_SECONDS)]
Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
Counter = Annotated[int, Field(ge=0, le=SAFE_INT_MAX)]
Nonce = Annotated[str, Field(max_length=128)]
Uri = Annotated[str, Field(min_length=1, max_length=1024)]
Image = Annotated[str, Field(min_length=1, max_length=512)]
LabelMap = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32)]


def _quantity(pattern: str, low: str, high: str, message: str) -> WithJsonSchema:
    """Schema of a quantity: a string, or an integer as YAML reads it without quotes.

    The form is a CEL rule, since a `pattern` has no message of its own. It has no `anyOf` of types, which Kubernetes leaves
    open: the API server would write three lines more about a decimal without quotes. Such a number reaches no rule: CEL
    has no type for a field that takes it.
    """
    rule = (
        f"string(self).matches(r'{pattern}') && quantity(string(self)).compareTo(quantity('{low}')) >= 0 && "
        f"quantity(string(self)).compareTo(quantity('{high}')) <= 0"
    )
    schema: dict[str, Any] = {
        "x-kubernetes-int-or-string": True,
        "maxLength": 20,
        "x-kubernetes-validations": [cel(rule, message)],
    }
    return WithJsonSchema(schema)


def _text(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(f'{value} is a number with a decimal point: write it in quotes, "{value}"')
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked_cpu(value: str) -> str:
    cpu_millis(value)
    return value


def _checked_memory(value: str) -> str:
    memory_mib(value)
    return value


Cpu = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_checked_cpu),
    _quantity(
        CPU_PATTERN, "1m", "1024", 'cpu must be from 1m to 1024 cores: write for instance 2, "500m" or "0.5", in quotes'
    ),
]
"""CPU quantity as written, e.g. `500m`; see `quantities.cpu_millis`."""
Memory = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_checked_memory),
    _quantity(
        MEMORY_PATTERN,
        "1Mi",
        "16Ti",
        'memory must be from 1Mi to 16Ti: write for instance "512Mi" or "2Gi", not 2g or 2GB; a plain number is bytes',
    ),
]
"""Memory quantity as written, e.g. `2Gi`; see `quantities.memory_mib`."""

MAX_CONF_ENTRIES = 256
SparkConf = Annotated[
    dict[str, Annotated[str, Field(max_length=8192)]],
    Field(
        max_length=MAX_CONF_ENTRIES,
        json_schema_extra={
            "x-kubernetes-validations": [
                cel(
                    "self.all(k, k.size() > 0 && k.size() <= 253)",
                    "a configuration key must have 1 to 253 characters: shorten or remove the longer one",
                )
            ]
        },
    ),
]
"""Spark configuration. Which keys are allowed is the class's policy, not the schema's."""


class LocalReference(ApiModel):
    """One of our objects in the same namespace."""

    name: ResourceName = Field(description="Name of the object, in the same namespace.")


class ConfigMapKeySelector(ApiModel):
    name: ObjectName = Field(description="Name of the ConfigMap, in the same namespace.")
    key: str = Field(min_length=1, max_length=253, description="Key within the ConfigMap's data.")


class SecretKeySelector(ApiModel):
    name: ObjectName = Field(description="Name of the Secret, in the same namespace.")
    key: str = Field(min_length=1, max_length=253, description="Key within the Secret's data.")


class SqlSource(ApiModel):
    """SQL text kept outside the object."""

    config_map_key_ref: ConfigMapKeySelector = Field(description="ConfigMap entry that holds the text (up to 1 MiB).")

"""Base of all resource models: camelCase in the API, snake_case in code, immutable, and lenient towards unknown fields.

The models are the one source of the CRDs, so whatever a schema needs beyond types (CEL rules, list semantics) is
attached here as JSON schema extras. Instances are values: change one with `replace`, which validates, never with
`model_copy`.

Errors of validation never show the offending input: it may be SQL text or a parameter.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from sparksql.api.names import API_VERSION


class ApiModel(BaseModel):
    """A part of a resource. `None` means "not set" and is never written."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    @classmethod
    def parse(cls, obj: Any) -> Self:
        """Model of a JSON object. Raises `pydantic.ValidationError` (a `ValueError`) if the CRD would refuse it."""
        return cls.model_validate(obj)

    @classmethod
    def copy_of(cls, other: BaseModel) -> Self:
        """Copies what `other`, a model of the control protocol, says under the same names; what it says besides is left out.

        Raises `pydantic.ValidationError` as `parse` does.
        """
        return cls.model_validate(dict(other), from_attributes=True)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready object with API field names and without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def replace(self, **changes: Any) -> Self:
        """Copy with some fields (by attribute name) changed and validated. Raises `TypeError` for an unknown name."""
        if unknown := changes.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        # A model with a field `keys` would be taken for a mapping.
        return type(self).model_validate({**dict(iter(self)), **changes})


def _utc_millis(value: datetime) -> datetime:
    value = value.astimezone(UTC)
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds only if there are any: `2026-01-31T08:00:00Z`."""
    value = _utc_millis(value)
    return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds").replace("+00:00", "Z")


Timestamp = Annotated[
    AwareDatetime, AfterValidator(_utc_millis), PlainSerializer(format_time, return_type=str, when_used="json")
]
"""A moment, normalised to UTC and milliseconds so that a value read back equals the value written."""


def clipped(limit: int) -> Any:
    """Annotation of a status text that is cut to `limit` characters: a long one must never make a status unwritable."""

    def cut(value: Any) -> Any:
        return value[: limit - 1] + "…" if isinstance(value, str) and len(value) > limit else value

    return BeforeValidator(cut), Field(max_length=limit)


class OwnerReference(ApiModel):
    """Names an owner of an object, as in Kubernetes: with it the object is deleted too."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(ApiModel):
    """The part of an object's metadata that is used. `namespace` is empty for cluster-scoped objects."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = ()
    annotations: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def is_deleting(self) -> bool:
        """Tells whether the object's deletion has been asked for; finalizers may still keep it."""
        return self.deletion_timestamp is not None


class ApiObject(ApiModel):
    """A whole object of one of our kinds. Subclasses add `spec` and `status`."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT_NAME: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMeta

    def to_dict(self) -> dict[str, Any]:
        """Returns the object as JSON data, with `apiVersion` and `kind`."""
        return {"apiVersion": API_VERSION, "kind": self.KIND, **super().to_dict()}


def cel(rule: str, message: str, field_path: str | None = None) -> dict[str, str]:
    """Returns one `x-kubernetes-validations` entry. `message` says what to do instead, `field_path` (`.sql`) where."""
    return {"rule": rule, "message": message} | ({"fieldPath": field_path} if field_path else {})


def ratcheting(rule: str, message: str, field_path: str) -> dict[str, Any]:
    """As `cel`, for a rule that came after objects were stored: an object that breaks it may be changed and still break it.

    `optionalOldSelf` has the rule evaluated for new objects as well (CRD validation ratcheting, Kubernetes 1.30).
    """
    before = rule.replace("self.", "oldSelf.value().")
    return {**cel(f"({rule}) || (oldSelf.hasValue() && !({before}))", message, field_path), "optionalOldSelf": True}


def immutable(field: str, message: str) -> dict[str, str]:
    """Rule of the parent of an optional field: neither its value nor its presence may change.

    It stands on the parent because a rule of the field itself is not asked when the field comes or goes.
    """
    same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return cel(same, message)


def immutable_list(field: str, message: str) -> dict[str, str]:
    """As `immutable`, for an optional list: an empty one is the same as none.

    `orValue([])` would read better, but loses the bounds of the list, and the rule its cost estimate.
    """
    sizes = (f"(has({value}.{field}) ? {value}.{field}.size() : 0)" for value in ("self", "oldSelf"))
    equal = f"!has(self.{field}) || !has(oldSelf.{field}) || self.{field} == oldSelf.{field}"
    return cel(f"{' == '.join(sizes)} && ({equal})", message)


def validated(*rules: dict[str, Any]) -> ConfigDict:
    """`model_config` of an object with cross-field rules."""
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": [{**rule} for rule in rules]})


def map_list(*keys: str) -> dict[str, Any]:
    """JSON schema extra of a list whose entries are identified by `keys`: unique, merged entry by entry on apply."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


SET_LIST: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""JSON schema extra of a list of unique scalars."""

NULLABLE: dict[str, Any] = {"nullable": True}
"""JSON schema extra of an optional field that manifests may spell out as null, which server-side apply else refuses."""

FREE_FORM: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""JSON schema extra of an object that is passed on as it is (a pod template)."""

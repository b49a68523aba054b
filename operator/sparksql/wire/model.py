"""What all models of the protocols have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

BYTE_ORDER_MARK = "\ufeff"

SqlText = Annotated[str, AfterValidator(lambda text: text.removeprefix(BYTE_ORDER_MARK))]
"""Text of SQL without the byte order mark that editors on Windows write before it, and that Spark's parser refuses."""


class WireModel(BaseModel):
    """camelCase on the wire, snake_case in code, frozen; unknown fields are ignored so that either side may be newer.

    What that means for values and versions is in `versions`.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    def to_json(self) -> str:
        """Returns the model as it travels: camelCase, without fields that are None."""
        return self.model_dump_json(by_alias=True, exclude_none=True)

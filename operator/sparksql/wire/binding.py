"""How a driver that was started ahead of need becomes a session's: it is given, once, all that a driver is given at its start.

Until then it serves nobody but the operator: its own token opens this one call and the look at how it is. From then on it is the
session's driver as if it had been started for it; the token of before opens nothing any more.
"""

from __future__ import annotations

from pydantic import Field

from sparksql.wire.model import WireModel

BIND_PATH = "/control/v1/bind"


class BindRequest(WireModel):
    """Holds the texts of the files that the folder of a driver has, see `sparksql.wire.driver`.

    `config` is that of `config.json`; what Spark fixes at its start must be in it as the driver was started with.
    """

    config: str = Field(repr=False)
    token: str = Field(repr=False)
    certificate: str
    key: str = Field(repr=False)
    front_token: str | None = Field(default=None, repr=False)


class BindRefusal(WireModel):
    """Says why a driver cannot be that session's: keys whose values it cannot change any more."""

    fixed: tuple[str, ...] = ()
    message: str = ""

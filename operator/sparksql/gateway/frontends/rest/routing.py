"""Which route a request means: the table of all routes, and how a path finds its own. Pure.

A path may begin with `/compat`, then with a version; without a version it means the highest that is advertised there. Empty
segments do not count, so a slash at the end, or two in a row (a client whose address ends in one), do no harm. Whatever
does not match, a wrong method as well, is not found. The table is also the source of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparksql.gateway.frontends.rest import models
from sparksql.gateway.frontends.rest.errors import Form
from sparksql.gateway.frontends.rest.models import RestModel
from sparksql.wire.target import COMPAT_PREFIX, client_path

VERSIONS = (1, 2, 3, 4)
COMPAT_VERSIONS = ("V1", "V2")  # what the oldest released clients know
_SESSION = "/sessions/{session_handle}"
_OPERATION = f"{_SESSION}/operations/{{operation_handle}}"
_CATALOG = f"{_SESSION}/catalogs/{{catalog}}"
_DATABASE = f"{_CATALOG}/databases/{{database}}"


@dataclass(frozen=True)
class Route:
    """Describes one route.

    `since` is the version that brought it, `failure` what its errors say it could not do, `own` that the released
    server has not got it.
    """

    name: str
    method: str
    path: str
    since: int
    summary: str
    response: type[RestModel] | None
    request: type[RestModel] | None = None
    form: Form = Form.CHAIN
    failure: str = ""
    own: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """Returns the parts of the path."""
        return tuple(self.path.split("/")[1:])


@dataclass(frozen=True)
class Match:
    """A route with the version it was asked in, what stood before its own path, and its parameters as they were sent."""

    route: Route
    version: int
    prefix: str
    compat: bool
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)


ROUTES = (
    Route("info", "GET", "/info", 1, "The product and its version", models.InfoResponse),
    Route("api_versions", "GET", "/api_versions", 1, "The versions of this API", models.ApiVersionsResponse),
    Route("openapi", "GET", "/openapi.json", 1, "This document", None, own=True),
    Route(
        "open_session", "POST", "/sessions", 1, "Open a session", models.OpenSessionResponse,
        models.OpenSessionRequest, failure="Failed to openSession.",
    ),
    Route("get_session", "GET", _SESSION, 1, "The properties of a session", models.SessionResponse, failure="Failed to getSessionConfig."),
    Route("close_session", "DELETE", _SESSION, 1, "Close a session", models.StatusResponse, failure="Failed to closeSession."),
    Route(
        "heartbeat", "POST", f"{_SESSION}/heartbeat", 1, "Keep a session open", models.EmptyResponse,
        failure="Failed to getSessionConfig.",
    ),
    Route(
        "configure_session", "POST", f"{_SESSION}/configure-session", 2,
        "Run a statement that configures the session, and wait for its end", models.EmptyResponse,
        models.ConfigureSessionRequest, Form.SERVER_SIDE, "Failed to configure session.",
    ),
    *(
        Route(
            "complete_statement", method, f"{_SESSION}/complete-statement", 2, "How a statement may go on at a position",
            models.CompleteStatementResponse, models.CompleteStatementRequest, Form.SERVER_SIDE,
            "Failed to get statement completion candidates.", own=method == "POST",
        )
        for method in ("GET", "POST")
    ),
    Route(
        "execute_statement", "POST", f"{_SESSION}/statements", 1, "Submit a statement", models.ExecuteStatementResponse,
        models.ExecuteStatementRequest, Form.SERVER_SIDE, "Failed to execute statement.",
    ),
    Route("operation_status", "GET", f"{_OPERATION}/status", 1, "The status of an operation", models.StatusResponse, failure="Failed to getOperationInfo."),
    Route("cancel_operation", "POST", f"{_OPERATION}/cancel", 1, "Cancel an operation", models.StatusResponse, failure="Failed to cancelOperation."),
    Route("close_operation", "DELETE", f"{_OPERATION}/close", 1, "Close an operation and free its result", models.StatusResponse, failure="Failed to closeOperation."),
    Route(
        "fetch_results", "GET", f"{_OPERATION}/result/{{token}}", 1, "A page of an operation's result",
        models.FetchResultsResponse, form=Form.SERVER_SIDE, failure="Failed to fetchResults.",
    ),
    Route(
        "refresh_materialized_table", "POST", f"{_SESSION}/materialized-tables/{{identifier}}/refresh", 3,
        "Not supported: Spark has no materialized tables", None, form=Form.SERVER_SIDE, failure="Failed to refresh materialized table.",
    ),
    *(
        Route(
            "workflow", method, f"/workflow/embedded-scheduler/{action}", 3, "Not supported: there is no embedded scheduler", None,
        )
        for method, action in (("POST", "create"), ("POST", "suspend"), ("POST", "resume"), ("DELETE", "delete"))
    ),
    Route(
        "deploy_script", "POST", f"{_SESSION}/scripts", 4, "Run a script of several statements as one operation",
        models.DeployScriptResponse, models.DeployScriptRequest, Form.SERVER_SIDE, "Failed to deploy script to cluster.",
    ),
    # What FLIP-91 gives to endpoints, and the released API has no route for.
    Route("list_sessions", "GET", "/sessions", 4, "The open sessions of clients", models.SessionsResponse, own=True),
    Route("list_catalogs", "GET", f"{_SESSION}/catalogs", 4, "Catalogs", models.CatalogsResponse, failure="Failed to listCatalogs.", own=True),
    Route("list_databases", "GET", f"{_CATALOG}/databases", 4, "Databases of a catalog", models.DatabasesResponse, failure="Failed to listDatabases.", own=True),
    Route("list_tables", "GET", f"{_DATABASE}/tables", 4, "Tables and views of a database", models.TablesResponse, failure="Failed to listTables.", own=True),
    Route("get_table", "GET", f"{_DATABASE}/tables/{{table}}", 4, "A table and its columns", models.TableResponse, failure="Failed to getTable.", own=True),
    Route("list_functions", "GET", f"{_DATABASE}/functions", 4, "Functions of a database", models.FunctionsResponse, failure="Failed to listUserDefinedFunctions.", own=True),
    Route("list_own_functions", "GET", f"{_SESSION}/functions", 4, "Functions of Spark, and temporary ones", models.FunctionsResponse, failure="Failed to listSystemFunctions.", own=True),
)  # fmt: skip


def match_route(method: str, segments: tuple[str, ...], advertised: Sequence[str]) -> Match | None:
    """Returns the route that a request means, if any. `advertised` are version names, the highest last."""
    path = client_path(segments)
    known = COMPAT_VERSIONS if path.compat else advertised
    version = path.version or int(known[-1].removeprefix("V"))
    prefix = f"/{COMPAT_PREFIX}/v{version}" if path.compat else f"/v{version}"
    for route in ROUTES:
        if route.method == method and route.since <= version:
            parameters = _matched(route.segments, path.rest)
            if parameters is not None:
                return Match(route, version, prefix, path.compat, parameters)
    return None


def _matched(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for wanted, given in zip(template, segments, strict=True):
        if wanted.startswith("{"):
            parameters[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return parameters

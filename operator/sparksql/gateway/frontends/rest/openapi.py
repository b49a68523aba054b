"""The OpenAPI document of the REST API, generated from its routes and wire models.

`python -m sparksql.gateway.frontends.rest.openapi` writes `docs/rest-openapi.json` below the working directory, `--check` fails
if the file differs. The gateway serves the same at `/openapi.json`.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic.json_schema import models_json_schema

from sparksql.gateway.frontends.rest.models import (
    DeployScriptResponse,
    ErrorResponse,
    ExecuteStatementResponse,
    OpenSessionResponse,
    RestModel,
    RowFormat,
)
from sparksql.gateway.frontends.rest.routing import ROUTES, VERSIONS, Route

DOCUMENT = Path("docs/rest-openapi.json")
_REFERENCES = "#/components/schemas/{model}"
_ERROR_TEXTS = {
    "400": "The request cannot be read",
    "401": "The token of the session is missing",
    "403": "The session's class does not allow it",
    "404": "No such route",
    "408": "The body did not arrive in time",
    "413": "The request is too large",
    "429": "Too many statements wait or are stored",
    "500": "The request failed; the last cause has the reason",
    "503": "Spark is starting, or the driver is about to end",
}
_HANDLE = {"type": "string", "format": "uuid"}
_HANDLES = {"session_handle", "operation_handle"}
# A name in a path, as `sparksql.wire.target` takes it: no slash and no control character. (A "." or ".." is refused as well.)
_NAME = {"type": "string", "pattern": r"^[^/\u0000-\u001f\u007f-\u009f]+$"}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "session_handle": _HANDLE,
    "operation_handle": _HANDLE,
    "token": {"type": "integer", "format": "int64", "minimum": 0},
    "identifier": _NAME,
    "catalog": {**_NAME, "examples": ["spark_catalog"]},
    "database": {**_NAME, "examples": ["default"]},
    "table": {**_NAME, "examples": ["orders"]},
}
_SAME_SESSION = {"session_handle": "$request.path.session_handle"}
# Answers that name something, and how the routes that work on it are told what.
_NAMED: dict[type[RestModel], dict[str, str]] = {
    OpenSessionResponse: {"session_handle": "$response.body#/sessionHandle"},
    ExecuteStatementResponse: {**_SAME_SESSION, "operation_handle": "$response.body#/operationHandle"},
    DeployScriptResponse: {**_SAME_SESSION, "operation_handle": "$response.body#/clusterID"},
}


@lru_cache
def document(version: int) -> str:
    """Returns the document for one version of the API, as JSON."""
    routes = [route for route in ROUTES if route.since <= version]
    schemas = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, version)
    content = {
        "openapi": "3.1.0",
        "info": {
            "title": "Spark SQL sessions over the REST API of Flink's SQL Gateway",
            "version": f"v{version}",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"/v{version}"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {status: _error(text) for status, text in _ERROR_TEXTS.items()},
        },
    }
    return json.dumps(content, indent=2) + "\n"


def _schemas(routes: list[Route]) -> dict[str, Any]:
    inputs = {route.request for route in routes if route.request is not None}
    outputs = {route.response for route in routes if route.response is not None} | {ErrorResponse}
    wanted: list[tuple[type[RestModel], Literal["validation", "serialization"]]] = [
        *((model, "validation") for model in sorted(inputs, key=_name)),
        *((model, "serialization") for model in sorted(outputs, key=_name)),
    ]
    _, found = models_json_schema(wanted, by_alias=True, ref_template=_REFERENCES)
    return dict(found["$defs"])


def _name(model: type[RestModel]) -> str:
    return model.__name__


def _operation(route: Route, version: int) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _id(route),
        "summary": route.summary,
        "responses": {
            **({} if route.response is None and not route.own else {"200": _answer(route, version)}),
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _ERROR_TEXTS},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]} for name in _parameters(route)
    ]
    if route.name == "fetch_results" and version > 1:
        schema = {"type": "string", "enum": [row_format.value for row_format in RowFormat], "default": "JSON"}
        parameters.append({"name": "rowFormat", "in": "query", "required": False, "schema": schema})
    if parameters:
        operation["parameters"] = parameters
    if route.request is not None:
        required = any(field.is_required() for field in route.request.model_fields.values())
        operation["requestBody"] = {"required": required, "content": _json(_reference(route.request))}
    return operation


def _id(route: Route) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), route.name) + _suffix(route)


def _parameters(route: Route) -> list[str]:
    return re.findall(r"{(\w+)}", route.path)


def _suffix(route: Route) -> str:
    """Routes of one name are told apart by what differs: the last segment of the path, or the method."""
    same = [other for other in ROUTES if other.name == route.name]
    if len(same) == 1:
        return ""
    return route.segments[-1].capitalize() if len({other.path for other in same}) > 1 else route.method.capitalize()


def _answer(route: Route, version: int) -> dict[str, Any]:
    content = _json({"type": "object"} if route.response is None else _reference(route.response))
    if route.name == "fetch_results":
        content["application/vnd.apache.arrow.stream"] = {}
    links = _links(route, version)
    return {"description": "Success", "content": content, **({"links": links} if links else {})}


def _links(route: Route, version: int) -> dict[str, Any]:
    """Where the session or the operation that an answer names is used."""
    named = {} if route.response is None else _NAMED.get(route.response, {})
    first_page = {"token": 0}
    return {
        _id(other): {
            "operationId": _id(other),
            "parameters": {**named, **(first_page if "token" in _parameters(other) else {})},
        }
        for other in ROUTES
        if named and other.since <= version and named.keys() == {*_parameters(other)} & _HANDLES
    }


def _error(text: str) -> dict[str, Any]:
    return {"description": text, "content": _json(_reference(ErrorResponse))}


def _reference(model: type[RestModel]) -> dict[str, Any]:
    return {"$ref": _REFERENCES.format(model=model.__name__)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def main(arguments: list[str]) -> int:
    """Writes the document, or with `--check` compares it with the one that is there; returns the exit code."""
    wanted = document(VERSIONS[-1])
    if "--check" not in arguments:
        DOCUMENT.write_text(wanted)
        return 0
    if DOCUMENT.exists() and DOCUMENT.read_text() == wanted:
        return 0
    sys.stderr.write(f"{DOCUMENT} differs from the models: run `python -m sparksql.gateway.frontends.rest.openapi`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

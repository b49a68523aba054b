"""The API answers as the released server does: status and form of every answer, against facts taken from a real one.

`rest_facts.json` holds scenarios, each a list of requests in order: `keep` names the handle in an answer for later paths,
`until` the status that is waited for. Values are literal, or say what is meant: text, uuid, hex32, logical type, any. Of an
error the form and its first and last message are compared. What is different on purpose is in DIFFERENCES, with the reason.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import GatewayProcess

from .client import GatewayClient
from .rest_client import Answer, RestClient, RestSession, connect_rest

Fact = dict[str, Any]

FACTS: dict[str, list[Fact]] = json.loads((Path(__file__).parent / "rest_facts.json").read_text())
UNKNOWN = "12345678-90ab-cdef-1234-567890abcdef"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PATTERNS = {"uuid": UUID, "hex32": "[0-9a-f]{32}"}

ACCEPTED: Fact = {"status": 200, "answer": {}}
SUBMITTED: Fact = {"status": 200, "answer": {"operationHandle": "uuid"}}
# Name of the fact -> what holds here instead, and why.
DIFFERENCES: dict[str, tuple[Fact, str]] = {
    "configure executionTimeout 1000": (ACCEPTED, "a timeout is honoured, not refused"),
    "statements executionTimeout 5000": (SUBMITTED, "a timeout is honoured, not refused"),
    "complete-statement by POST": (
        {"status": 200, "answer": {"candidates": "list of text"}},
        "proxies drop the body of a GET, so POST does the same",
    ),
    "configure SET without quotes": (
        {"status": 500, "errors": {"server side": ["Failed to configure session."]}},
        "an unquoted key is Spark's, and only those that the class allows may be set",
    ),
    "scripts remote target": (
        {"status": 200, "answer": {"clusterID": "uuid"}},
        "a script runs in this driver, as the operation that is named instead of a cluster",
    ),
    "materialized table refresh unknown": (
        {"status": 500, "errors": {"server side": ["Failed to refresh materialized table.", "Spark has no materialized tables to refresh."]}},
        "told at once instead of by an operation that fails",
    ),
    "workflow create": (
        {"status": 500, "errors": {"chain": ["There is no embedded scheduler: workflows belong to the cluster's own scheduler."]}},
        "there is no embedded scheduler whatever the body says",
    ),
}  # fmt: skip


# The released server refuses every timeout alike; where they are honoured no machine is too slow for this one.
TIMEOUT, PATIENT = r'("executionTimeout": )[1-9]\d*\b', r"\g<1>600000"


@pytest.mark.parametrize("scenario", FACTS)
async def test_every_answer_is_that_of_the_released_server(rest: RestClient, scenario: str) -> None:
    handles = {"unknown": UNKNOWN}
    wrong: list[str] = []
    for fact in FACTS[scenario]:
        expected = DIFFERENCES[fact["name"]][0] if fact["name"] in DIFFERENCES else fact
        path = re.sub(r"{(\w+)}", lambda name: handles[name[1]], fact["path"])
        if "until" in fact and "keep" not in fact:
            await _wait(rest, path, fact["until"])
        headers = {"Content-Type": fact["contentType"]} if "contentType" in fact else None
        raw = re.sub(TIMEOUT, PATIENT, fact["body"]).encode() if "body" in fact else None
        answer = await rest.call(fact["method"], path, raw=raw, headers=headers)
        problem = _difference(answer, expected)
        if problem is not None:
            wrong.append(f"{fact['name']}: {problem}\n    {answer.status} {answer.body}")
        if "keep" in fact:
            assert answer.status == 200, f"{fact['name']}: {answer}"
            (handles[fact["keep"]],) = answer.body.values()
            if "until" in fact:
                operation = f"/v4/sessions/{handles['S']}/operations/{handles[fact['keep']]}/status"
                await _wait(rest, operation, fact["until"])
    assert not wrong, "\n".join(wrong)


def test_every_difference_is_one_of_a_known_fact() -> None:
    assert set(DIFFERENCES) <= {fact["name"] for facts in FACTS.values() for fact in facts}


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("/v1/api_versions", ["V1", "V2", "V3", "V4"]),
        ("/compat/v1/api_versions", ["V1", "V2"]),
        ("/compat/api_versions", ["V1", "V2"]),
    ],
)
async def test_the_prefix_for_old_clients_advertises_only_their_api_versions(
    rest: RestClient, path: str, versions: list[str]
) -> None:
    assert (await rest.call("GET", path)).body == {"versions": versions}


async def test_below_the_prefix_for_old_clients_everything_works_and_stays_there(rest: RestClient) -> None:
    async with rest.session("/compat/v2") as session:
        first, rows = await session.run("SELECT 1 AS a")
        assert rows == [[1]]
        assert first["nextResultUri"].startswith(f"/compat/v2/sessions/{session.handle}/operations/")
        operation = await session.submit("SELECT 2 AS a")
        without = RestSession(rest, session.handle, "/compat")
        assert (await without.page(operation, 0)).body["nextResultUri"].startswith("/compat/v2/")


@pytest.mark.parametrize("path", ["/info", "/v4/sessions", "/nope", "/compat/v1/info", "/openapi.json"])
async def test_without_the_token_nothing_is_told(gateway: GatewayProcess, client: GatewayClient, path: str) -> None:
    async with connect_rest(gateway, token="wrong") as stranger:
        answer = await stranger.call("GET", path)
    assert answer.status == 401
    assert list(answer.body) == ["errors"] and len(answer.body["errors"]) == 1
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_the_gateways_own_paths_keep_their_own_errors(rest: RestClient) -> None:
    answer = await rest.call("GET", "/control/v1/nope")
    assert answer.status == 404 and set(answer.body) == {"error", "message"}
    assert (await rest.call("GET", "/healthz")).status == 200


async def test_openapi_document_of_the_rest_endpoint_is_served(rest: RestClient) -> None:
    answer = await rest.call("GET", "/openapi.json")
    written = Path(__file__).parents[2] / "docs" / "rest-openapi.json"
    assert answer.raw == written.read_bytes()
    assert (await rest.call("GET", "/v1/openapi.json")).body["info"]["version"] == "v1"


async def _wait(rest: RestClient, path: str, status: str) -> None:
    """Until the operation that a path belongs to has a status."""
    found = re.search(rf"(/v\d)/sessions/({UUID})/operations/({UUID})", path)
    assert found is not None, path
    await RestSession(rest, found[2], found[1]).until(found[3], status)


def _difference(answer: Answer, expected: Fact) -> str | None:
    if answer.status != expected["status"]:
        return f"the status should be {expected['status']}"
    if answer.status != 404 and answer.headers["Content-Type"] != "application/json; charset=UTF-8":
        return f"the content type is {answer.headers['Content-Type']}"
    if "errors" in expected:
        return _error_difference(answer.body, expected["errors"])
    return _body_difference(answer.body, expected["answer"])


def _body_difference(seen: Any, expected: Any) -> str | None:
    match expected:
        case "any":
            return None
        case "text":
            return None if isinstance(seen, str) else f"{seen!r} is no text"
        case "texts":
            good = isinstance(seen, dict) and all(isinstance(value, str) for value in seen.values())
            return None if good else f"{seen!r} are no texts"
        case "list of text":
            good = isinstance(seen, list) and all(isinstance(value, str) for value in seen)
            return None if good else f"{seen!r} is no list of text"
        case "uuid" | "hex32":
            return None if re.fullmatch(PATTERNS[expected], str(seen)) else f"{seen!r} is no {expected}"
        case "logical type":
            good = (
                isinstance(seen, dict) and isinstance(seen["nullable"], bool) and seen["type"] == seen["type"].upper()
            )
            return None if good else f"{seen!r} is no logical type"
        case str() if "*" in expected:
            return None if re.sub(UUID, "*", str(seen)) == expected else f"{seen!r} is not {expected}"
        case dict():
            if not isinstance(seen, dict) or list(seen) != list(expected):
                return f"the keys of {seen!r} are not {list(expected)}"
            return next((found for key in expected if (found := _body_difference(seen[key], expected[key]))), None)
        case list():
            if not isinstance(seen, list) or len(seen) != len(expected):
                return f"{seen!r} has not {len(expected)} items"
            pairs = zip(seen, expected, strict=True)
            return next((found for one, other in pairs if (found := _body_difference(one, other))), None)
        case _:
            return None if seen == expected else f"{seen!r} is not {expected!r}"


def _error_difference(seen: Any, expected: dict[str, Any]) -> str | None:
    if (
        not isinstance(seen, dict)
        or list(seen) != ["errors"]
        or not all(isinstance(text, str) for text in seen["errors"])
    ):
        return f"{seen!r} is no error"
    ((form, messages),) = expected.items()
    texts = [re.sub(UUID, "*", text) for text in seen["errors"]]
    match form:
        case "short":
            return None if texts == [messages] else f"the error should be {messages!r}"
        case "server side":
            good = len(texts) == 2 and texts[0] == "Internal server error." and "\nEnd of exception" in texts[1]
            chain = texts[-1].removeprefix("<Exception on server side:\n")
        case _:
            good, chain = len(texts) == 1, texts[0]
    causes = [cause.partition("\n\tat ")[0] for cause in chain.split("\nCaused by: ")]
    if (
        not good
        or not causes[0].endswith(messages[0])
        or not causes[-1].endswith(messages[-1] if len(messages) > 1 else "")
    ):
        return f"the error should be {expected}"
    return None

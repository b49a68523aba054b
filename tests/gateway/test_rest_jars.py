"""Jars that a client names when it opens a session over the REST API."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import GatewayProcess, running

from .rest_client import Answer, RestClient, RestSession


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("jars")
    (folder / "trusted").mkdir()
    with running(folder, policy={"jarPrefixes": [f"file://{folder}/trusted/"]}) as started:
        yield started


def jar(folder: Path) -> str:
    with zipfile.ZipFile(folder / "tool.jar", "w") as made:
        made.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return (folder / "tool.jar").as_uri()


async def opened(rest: RestClient, jars: object, version: int = 4) -> Answer:
    return await rest.call("POST", f"/v{version}/sessions", {"sessionName": "with jars", "jars": jars})


async def open_sessions(rest: RestClient) -> int:
    return len((await rest.call("GET", "/v4/sessions")).body["sessions"])


async def test_jars_are_there_when_a_session_is(rest: RestClient, gateway: GatewayProcess) -> None:
    answer = await opened(rest, [jar(gateway.folder / "trusted")])
    assert answer.status == 200, answer
    session = RestSession(rest, answer.body["sessionHandle"])
    page = await session.page(await session.submit("LIST JARS"), 0)
    assert "tool.jar" in str(page.body["results"]["data"])
    await session.close()
    assert (await opened(rest, [])).status == 200


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("other", 403, "is not below any of the jar prefixes"),
        ("missing", 500, "tool.jar"),
        ("quoted", 500, "must be a URI without quotes"),
    ],
)
async def test_a_jar_that_cannot_be_added_opens_no_session(
    rest: RestClient, gateway: GatewayProcess, name: str, status: int, told: str
) -> None:
    before = await open_sessions(rest)
    trusted = (gateway.folder / "trusted").as_uri()
    uris = {"other": jar(gateway.folder), "missing": f"{trusted}/gone/tool.jar", "quoted": f"{trusted}/'; SELECT 1 --"}
    answer = await opened(rest, [uris[name]])
    assert (answer.status, told in str(answer.body)) == (status, True), answer
    assert await open_sessions(rest) == before


async def test_jars_that_are_no_list_of_texts_are_a_bad_request(rest: RestClient) -> None:
    for jars in ("tool.jar", [["tool.jar"]], ["x"] * 33):
        assert (await opened(rest, jars)).status == 400, jars
    earlier = await opened(rest, ["file:///nowhere/tool.jar"], version=3)
    assert earlier.status == 200, "a field that no released server knows"

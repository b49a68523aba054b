"""Our resource definitions on an API server that has no chart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from tests.support.apiserver import ApiServer

CRDS = Path(__file__).resolve().parents[2] / "crds"
CRD_API = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISH_SECONDS = 120.0


def install_crds(server: ApiServer) -> None:
    """Makes them and returns once their resources are served: who discovers kinds before that does not find them."""
    for file in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        response = server.request("POST", CRD_API, definition)
        assert response.status == 201, f"{file.name}: {response.message}"
        _await_served(server, definition)


def _await_served(server: ApiServer, definition: dict[str, Any]) -> None:
    """A CRD is established a little before its resource is served."""
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    deadline = time.monotonic() + ESTABLISH_SECONDS
    while (seen := server.request("GET", path)).status != 200:
        if time.monotonic() > deadline:
            state = server.request("GET", f"{CRD_API}/{definition['metadata']['name']}").body
            raise AssertionError(f"{path} is not served: {seen}; conditions: {state['status']['conditions']}")
        time.sleep(0.05)

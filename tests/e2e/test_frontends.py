"""A frontend of a package of its own on the cluster: its class switches it on, and its clients come by the session's Service."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.harness import Classes, Space, reason
from tests.support.installation import QUICK_COMPILER

PACKAGE = Path(__file__).parents[1] / "gateway" / "line_frontend"
FILES = {
    "module": "line_frontend.py",
    "metadata": "line_frontend-1.0.dist-info/METADATA",
    "entry-points": "line_frontend-1.0.dist-info/entry_points.txt",
}
PORT = 7777
ANALYST = {"role": "analyst"}
ASK = """
import socket, ssl, sys
certificate, token, host, port, *statements = sys.argv[1:]
context = ssl.create_default_context(cadata=certificate)
with socket.create_connection((host, int(port)), timeout=60) as raw:
    with context.wrap_socket(raw, server_hostname=host) as connection:
        lines = connection.makefile("rw")
        for line in (token, *statements):
            print(line, file=lines, flush=True)
        print("[" + ",".join(lines.readline() for _ in statements or "x") + "]")
"""


def class_with(classes: Classes, *names: str) -> str:
    """A class with these frontends, whose drivers have the package mounted."""
    items = [{"key": key, "path": path} for key, path in FILES.items()]
    container = {
        "name": "spark",
        "env": [QUICK_COMPILER, {"name": "PYTHONPATH", "value": "/package"}],
        "volumeMounts": [{"name": "package", "mountPath": "/package", "readOnly": True}],
    }
    volume = {"name": "package", "configMap": {"name": "line-frontend", "items": items}}
    template = {"spec": {"volumes": [volume], "containers": [container]}}
    frontends = [{"name": name, "port": PORT + number} for number, name in enumerate(names)]
    clients = [{"podSelector": {"matchLabels": ANALYST}}]
    return classes.make(podTemplate={"driver": template}, frontends=frontends, networkPolicy={"clients": clients})


def test_a_frontend_of_a_package_serves_clients_of_its_session(space: Space, classes: Classes) -> None:
    space.config_map("line-frontend", **{key: (PACKAGE / path).read_text() for key, path in FILES.items()})
    session = space.session("lines", className=class_with(classes, "lines"))
    [told] = session["status"]["endpoints"]["frontends"]
    host, _, port = told["address"].rpartition(":")
    assert (told["name"], port) == ("lines", str(PORT))
    space.cluster.idle_pod(space.name, "client", ANALYST)
    space.cluster.kubectl("wait", "-n", space.name, "pod/client", "--for=condition=Ready", "--timeout=120s")
    token, certificate = space.credentials("lines")

    def ask(with_token: str, *statements: str) -> object:
        program = ("python3", "-c", ASK, certificate, with_token, host, port, *statements)
        return json.loads(space.cluster.kubectl("exec", "-n", space.name, "client", "--", *program))

    assert ask(token, "SELECT current_database() AS d", "SELECT 1 + 1 AS n") == [
        {"rows": [{"d": space.database}]},
        {"rows": [{"n": 2}]},
    ]
    assert ask("wrong") == [{"error": "wrong token"}]


def test_a_frontend_that_the_image_has_not_fails_its_session_by_name(space: Space, classes: Classes) -> None:
    space.session("nobody", wait=False, className=classes.make(frontends=[{"name": "nowhere", "port": PORT}]))
    failed = space.wait_session("nobody", "Failed")
    assert reason(failed) == "InitFailed"
    for part in (
        "spec.frontends of the class: nowhere cannot serve",
        "it has: connect, control, rest, thrift",
        "session image",
    ):
        assert part in failed["status"]["message"], failed["status"]["message"]

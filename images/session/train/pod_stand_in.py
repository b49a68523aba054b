"""A stand-in for the API server and the kubelet, just enough for Spark to make an executor pod that really runs.

With it the training run takes the same way through Spark's Kubernetes backend and its client as a driver in a pod does, so
that those classes are archived too. An executor "pod" is a process of the image's entrypoint on this machine. Everything
else that is asked for gets 404, which also makes it the object store that answers the s3a client's first request.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
NAMESPACE = "training"
DRIVER_POD = "driver"
COLLECTIONS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
TIMES = "2000-01-01T00:00:00Z"
STOP_SECONDS = 30


class ApiServer:
    """Serves on loopback while it is entered; on exit the pods get SIGTERM and have STOP_SECONDS to end in order."""

    def __init__(self, entrypoint: Sequence[str]) -> None:
        self._entrypoint = entrypoint
        self._objects: dict[tuple[str, str], Json] = {("pods", DRIVER_POD): running({"metadata": {"name": DRIVER_POD}})}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ApiServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        self._server.shutdown()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(STOP_SECONDS)

    def create(self, collection: str, created: Json) -> Json:
        """Keeps the object; a pod starts at once."""
        name = created["metadata"]["name"]
        if collection == "pods":
            created = running(created)
            self._processes.append(subprocess.Popen([*self._entrypoint, "executor"], env=pod_environment(created)))
        self._objects[(collection, name)] = created
        return created

    def read(self, collection: str, name: str) -> Json | None:
        return self._objects.get((collection, name))

    def list(self, collection: str) -> Json:
        items = [found for (kind, _), found in self._objects.items() if kind == collection]
        return {
            "kind": f"{COLLECTIONS[collection]}List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        }

    def hold_watch(self) -> None:
        """A watch that never has news: the driver also polls, and executors register by themselves."""
        self._closed.wait()


def running(pod: Json) -> Json:
    """`pod` as the API server shows it once its containers run."""
    metadata = {
        "uid": pod["metadata"]["name"],
        "resourceVersion": "1",
        "creationTimestamp": TIMES,
        "namespace": NAMESPACE,
    }
    state = {"name": "spark", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": TIMES}}}
    status = {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [state],
    }
    return {**pod, "apiVersion": "v1", "kind": "Pod", "metadata": {**pod["metadata"], **metadata}, "status": status}


def pod_environment(pod: Json) -> dict[str, str]:
    """The environment of the pod's first container, with its references to fields of the pod resolved."""
    fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    environment = dict(os.environ)
    for entry in pod["spec"]["containers"][0]["env"]:
        reference = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        environment[entry["name"]] = fields[reference] if reference else entry.get("value", "")
    return environment


def _handler(api_server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            collection, name = self._target()
            if collection is None:
                self._answer(404, None)
            elif "watch=true" in self.path:
                self._watch()
            elif name:
                found = api_server.read(collection, name)
                self._answer(200 if found else 404, found)
            else:
                self._answer(200, api_server.list(collection))

        def do_POST(self) -> None:
            body = self._body()
            collection, _ = self._target()
            self._answer(404, None) if collection is None else self._answer(201, api_server.create(collection, body))

        def do_PATCH(self) -> None:
            self._body()
            collection, name = self._target()
            found = api_server.read(collection, name) if collection else None
            self._answer(200 if found else 404, found)

        def do_DELETE(self) -> None:
            self._body()
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def do_HEAD(self) -> None:
            self._answer(404, None)

        def log_message(self, format: str, *arguments: object) -> None:
            """The build's output is for what it does, not for requests."""

        def _target(self) -> tuple[str | None, str]:
            parts = urlsplit(self.path).path.split("/")  # /api/v1/namespaces/NAMESPACE/COLLECTION[/NAME]
            if parts[:4] != ["", "api", "v1", "namespaces"] or len(parts) < 6 or parts[5] not in COLLECTIONS:
                return None, ""
            return parts[5], parts[6] if len(parts) > 6 else ""

        def _body(self) -> Json:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return json.loads(content) if content else {}

        def _watch(self) -> None:
            if self.headers.get("Upgrade"):
                self._answer(200, {})  # no web socket here: the client goes on with a plain request
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            api_server.hold_watch()
            self.close_connection = True

        def _answer(self, status: int, body: Json | None) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    return Handler

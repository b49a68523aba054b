"""The cluster's certificates and the kubeconfigs made of them. Made with each new cluster; keys are readable by the owner alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from .config import API_SERVER, API_SERVICE_IP, CLUSTER_NAME, NODE_IP, NODE_NAME
from .shell import run

API_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
API_ADDRESSES = ("127.0.0.1", NODE_IP, API_SERVICE_IP)
# Certificate name -> (subject, subject alternative names). The subjects are those Kubernetes' RBAC and node authorizer know.
LEAVES: dict[str, tuple[str, tuple[str, ...]]] = {
    "apiserver": ("/CN=kube-apiserver", (*(f"DNS:{n}" for n in API_NAMES), *(f"IP:{a}" for a in API_ADDRESSES))),
    "kubelet": (f"/O=system:nodes/CN=system:node:{NODE_NAME}", (f"DNS:{NODE_NAME}", f"IP:{NODE_IP}")),
    "admin": ("/O=system:masters/CN=admin", ()),
    "controller-manager": ("/CN=system:kube-controller-manager", ()),
    "scheduler": ("/CN=system:kube-scheduler", ()),
    "proxy": ("/CN=system:kube-proxy", ()),
}
CLIENTS = ("kubelet", "admin", "controller-manager", "scheduler", "proxy")
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = "3650"


def is_complete(folder: Path) -> bool:
    """Say whether `create` has run to its end."""
    wanted = ("ca.crt", "sa.pub", *(f"{name}.{kind}" for name in LEAVES for kind in ("crt", "key")))
    return all((folder / name).is_file() and (folder / name).stat().st_size > 0 for name in wanted)


def create(folder: Path) -> None:
    """Write the certificate authority, the service account key pair and one certificate per identity."""
    folder.mkdir(parents=True, mode=0o700)
    ca_key, ca_crt = folder / "ca.key", folder / "ca.crt"
    uses = (
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
    )
    run(
        [
            "openssl",
            "req",
            "-x509",
            *NEW_KEY,
            "-days",
            DAYS,
            "-subj",
            "/CN=kubernetes-ca",
            *uses,
            "-keyout",
            ca_key,
            "-out",
            ca_crt,
        ]
    )
    run(
        [
            "openssl",
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-out",
            folder / "sa.key",
        ]
    )
    run(["openssl", "pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"])
    for name, (subject, alternatives) in LEAVES.items():
        request = run(["openssl", "req", *NEW_KEY, "-subj", subject, "-keyout", folder / f"{name}.key"])
        extensions = folder / f"{name}.ext"
        extensions.write_text(leaf_extensions(alternatives))
        ca = ("-CA", ca_crt, "-CAkey", ca_key, "-CAcreateserial", "-days", DAYS, "-extfile", extensions)
        run(["openssl", "x509", "-req", *ca, "-out", folder / f"{name}.crt"], stdin=request)
    for key in folder.glob("*.key"):
        key.chmod(0o600)


def leaf_extensions(alternatives: tuple[str, ...]) -> str:
    """Return an openssl extension file. Python's strict verification asks for the key identifiers."""
    lines = [
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth,clientAuth",
        "subjectKeyIdentifier=hash",
        "authorityKeyIdentifier=keyid",
    ]
    if alternatives:
        lines.append(f"subjectAltName={','.join(alternatives)}")
    return "\n".join(lines) + "\n"


def kubeconfig(folder: Path, name: str) -> str:
    """Return a self-contained kubeconfig of one identity (JSON, which is YAML)."""

    def embedded(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    cluster = {"server": API_SERVER, "certificate-authority-data": embedded("ca.crt")}
    user = {"client-certificate-data": embedded(f"{name}.crt"), "client-key-data": embedded(f"{name}.key")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": name}}],
        "current-context": CLUSTER_NAME,
    }
    return json.dumps(document, indent=2) + "\n"


def write_kubeconfig(folder: Path, name: str, file: Path) -> None:
    """Write a kubeconfig that only its owner can read."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(kubeconfig(folder, name))

"""The default StorageClass: a folder on this machine for every claim, in any namespace, with nothing prepared.

A claim that waits gets a `local` PersistentVolume of its own on a new world-writable folder; when the claim is deleted, volume and
folder go with it. Sizes are not enforced.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from .api import TROUBLE, Api, ApiError, Object, changes, mirrors
from .config import NODE_NAME
from .shell import say

CLASS = "local"
PROVISIONER = "localkube/folder"
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


def volume_name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def waiting(claims: Iterable[Object], volumes: Iterable[Object]) -> list[Object]:
    """Return the claims of our class that have no volume yet."""
    present = {volume["metadata"]["name"] for volume in volumes}
    ours = (claim for claim in claims if claim["spec"].get("storageClassName") == CLASS)
    unbound = (c for c in ours if c.get("status", {}).get("phase") == "Pending" and not c["spec"].get("volumeName"))
    return [claim for claim in unbound if volume_name(claim) not in present]


def released(volumes: Iterable[Object]) -> list[Object]:
    """Return the volumes of our class whose claim is gone."""
    ours = (volume for volume in volumes if volume["spec"].get("storageClassName") == CLASS)
    return [volume for volume in ours if volume.get("status", {}).get("phase") in ("Released", "Failed")]


def volume(claim: Object, folder: Path) -> Object:
    """Return the PersistentVolume that is made for a claim."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": "Filesystem",
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def provide(api: Api, claim: Object, root: Path) -> None:
    """Make a claim's folder and volume. Repeating it is harmless."""
    folder = root / volume_name(claim)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    try:
        api.request("POST", VOLUMES, volume(claim, folder))
    except ApiError as error:
        if error.status != 409:
            raise
    say(f"{claim['metadata']['namespace']}/{claim['metadata']['name']}: {folder}")


def recycle(api: Api, item: Object, root: Path) -> None:
    """Remove a released volume and its folder. Repeating it is harmless."""
    name = item["metadata"]["name"]
    shutil.rmtree(root / name, ignore_errors=True)
    try:
        api.request("DELETE", f"{VOLUMES}/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
    say(f"{name}: recycled")


def main(pki: Path, root: Path) -> None:
    """Serve claims from folders below `root`, for ever."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    api = Api(pki)
    changed, (claims, volumes) = mirrors(api, CLAIMS, VOLUMES)
    for _ in changes(changed):
        try:
            for claim in waiting(claims.objects(), volumes.objects()):
                provide(api, claim, root)
            for item in released(volumes.objects()):
                recycle(api, item, root)
        except TROUBLE as trouble:
            say(f"trying again: {trouble!r}")
            time.sleep(1)
            changed.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Images without an engine or a registry: a Debian base by mmdebstrap, builds by buildah, import into containerd."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from . import runtime, tools
from .config import BASE_IMAGE, COREDNS_IMAGE, DEBIAN_RELEASE, PAUSE_IMAGE, Paths
from .shell import ClusterError, locked, run, say

BUILDAH_STORAGE = Path("/var/lib/containers")
HOST_CERTIFICATES = Path("/usr/local/share/ca-certificates")
BASE_LABEL = "localkube/base"
BASE_FILE = f"""FROM scratch
ADD base.tar /
COPY certificates/ {HOST_CERTIFICATES}/
RUN update-ca-certificates
"""
BINARY_FILE = """FROM scratch
COPY {name} /{name}
ENTRYPOINT ["/{name}"]
"""
SYSTEM_IMAGES = {PAUSE_IMAGE: "pause", COREDNS_IMAGE: "coredns"}


def buildah(*arguments: str | Path) -> str:
    """Run buildah with a storage driver that works on this machine; STORAGE_DRIVER overrides the choice."""
    driver = os.environ.get("STORAGE_DRIVER") or ("overlay" if runtime.overlay_works(BUILDAH_STORAGE) else "vfs")
    return run(["buildah", *arguments], env={"STORAGE_DRIVER": driver})


def image_id(image: str) -> str:
    """Return the id of an image in buildah's storage, or "" if it is not there."""
    found = buildah("images", "--format", "{{.ID}}", "--no-trunc", "--filter", f"reference={image}").split()
    return found[0].removeprefix("sha256:") if found else ""


def bud(image: str, context: Path, labels: Mapping[str, str] | None = None) -> None:
    """Build an image from a folder with a Dockerfile."""
    options = [f"--label={name}={value}" for name, value in (labels or {}).items()]
    buildah("bud", "--isolation=chroot", "--quiet", "--tag", image, *options, context)


def base() -> str:
    """Return the Debian base image's name; make it if it is missing or the host's CA certificates have changed."""
    certificates = {file.name: file.read_bytes() for file in sorted(HOST_CERTIFICATES.rglob("*.crt"))}
    wanted = base_digest(certificates)
    with locked(BUILDAH_STORAGE / "localkube-base.lock"):
        if not image_id(BASE_IMAGE) or base_label() != wanted:
            say(f"{BASE_IMAGE}: making the Debian base")
            make_base(certificates, wanted)
    return BASE_IMAGE


def base_digest(certificates: Mapping[str, bytes]) -> str:
    """Digest what decides the base image, apart from Debian's own updates."""
    digest = hashlib.sha256(BASE_FILE.encode())
    for name, text in certificates.items():
        digest.update(name.encode() + b"\0" + text)
    return digest.hexdigest()


def base_label() -> str:
    """Return the digest that the present base image was made with."""
    label = f'{{{{index .OCIv1.Config.Labels "{BASE_LABEL}"}}}}'
    return buildah("inspect", "--type", "image", "--format", label, BASE_IMAGE).strip()


def make_base(certificates: Mapping[str, bytes], digest: str) -> None:
    """Make the base image: Debian's packages from its archive, the host's CA certificates trusted."""
    packages = ["--variant=minbase", "--include=ca-certificates"]
    with tempfile.TemporaryDirectory(dir=BUILDAH_STORAGE) as name:
        context = Path(name)
        run(["mmdebstrap", *packages, DEBIAN_RELEASE, context / "base.tar"])
        (context / "certificates").mkdir()
        for file, text in certificates.items():
            (context / "certificates" / file).write_bytes(text)
        (context / "Dockerfile").write_text(BASE_FILE)
        bud(BASE_IMAGE, context, {BASE_LABEL: digest})


def load(paths: Paths, image: str) -> None:
    """Copy an image from buildah's storage into containerd, unless this very image is there. Raises ClusterError if nobody built it."""
    source = image_id(image)
    if not source:
        raise ClusterError(f"{image}: not in buildah's storage; build it first")
    if runtime.images().get(image) == source:
        say(f"{image}: already loaded")
        return
    transfer(paths, image, source)


def transfer(paths: Paths, image: str, source: str) -> None:
    """Hand an image over as an archive in Docker's format: its layers stay uncompressed, which costs a third less time."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=paths.cache) as name:
        archive = Path(name) / "image.tar"
        buildah("push", "--quiet", image, f"docker-archive:{archive}:{image}")
        runtime.import_archive(archive, image, source, runtime.snapshotter(paths))
    say(f"{image}: loaded in {time.monotonic() - began:.1f} s")


def load_system_images(paths: Paths) -> None:
    """Make and load the images the cluster itself runs, each from its one binary, unless that very binary is loaded."""
    loaded = runtime.images()
    for image, name in SYSTEM_IMAGES.items():
        source = tools.stamp_file(paths.bin, tools.BY_NAME[name]).read_text()
        if loaded.get(image) == source:
            continue
        with tempfile.TemporaryDirectory(dir=paths.cache) as folder:
            context = Path(folder)
            os.link(paths.bin / name, context / name)
            (context / "Dockerfile").write_text(BINARY_FILE.format(name=name))
            bud(image, context)
        transfer(paths, image, source)

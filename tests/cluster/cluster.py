#!/usr/bin/env python3
"""The cluster for development, tests and the demo: `cluster.py up`, then use the printed kubeconfig. See README.md beside this file."""

from __future__ import annotations

import argparse
import os
import sys

from localkube import tools
from localkube.config import Paths
from localkube.provider import Provider, select
from localkube.shell import ClusterError, say


def arguments() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    parser = argparse.ArgumentParser(prog="cluster.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", help="bring the cluster up, from any state, with what was in it; print the kubeconfig's path"
    )
    up.add_argument("--fresh", action="store_true", help="make a new, empty one; what was in it is lost")
    commands.add_parser("down", help="stop the cluster and remove its traces; images and binaries stay cached")
    commands.add_parser("crash", help="kill all of its processes at once, as a power cut does; `up` brings it back")
    kubelet = commands.add_parser("kubelet", help="let the node stop answering while its pods run on, and answer again")
    kubelet.add_argument("wish", choices=["stop", "start"])
    commands.add_parser("status", help="show components, readiness and images; exit code 1 unless all is well")
    load = commands.add_parser("load", help="make built images available to pods")
    load.add_argument("images", nargs="+", metavar="IMAGE")
    commands.add_parser("base", help="print the name of the Debian base image for builds; make it if needed")
    commands.add_parser("kubeconfig", help="print the kubeconfig's path")
    tool = commands.add_parser("tools", aliases=["build"], help="build the binaries; print their folder")
    tool.add_argument("names", nargs="*", metavar="NAME", help="default: all that this machine's cluster needs")
    tool.add_argument("--local", action="store_true", help="what tests without a cluster run")
    return parser


def execute(chosen: argparse.Namespace, paths: Paths, provider: Provider) -> int:
    """Run one command. Answers go to standard output, progress to standard error."""
    match chosen.command:
        case "up":
            provider.up(fresh=chosen.fresh)
            print(provider.kubeconfig())
        case "down":
            provider.down()
        case "crash":
            provider.crash()
        case "kubelet":
            provider.kubelet(answers=chosen.wish == "start")
        case "status":
            healthy, text = provider.status()
            print(text)
            return 0 if healthy else 1
        case "load":
            provider.load(chosen.images)
        case "base":
            print(provider.base())
        case "kubeconfig":
            print(provider.kubeconfig())
        case "tools" | "build":
            tools.build(paths, tools.LOCAL_TOOLS if chosen.local else chosen.names or provider.needs)
            print(paths.bin)
    return 0


def main() -> int:
    chosen = arguments().parse_args()
    paths = Paths.from_environment()
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where Debian keeps iptables and ip; a user's PATH may lack them
    try:
        return execute(chosen, paths, select(paths))
    except ClusterError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())

"""iptables: the guard that keeps the cluster on this machine, and the removal of every chain that the cluster has made."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable

from .config import NODE_IP, POD_BRIDGE, POD_CIDR
from .shell import ClusterError, run

OURS = "LOCALKUBE-"
# kube-proxy's and kubelet's chains begin with KUBE-.
PREFIXES = (OURS, "KUBE-")

# Our rules are in the mangle table: it comes before the filter table, whose order kube-proxy and others change as they like.
TABLE = "mangle"

# Nothing but this machine and its pods reaches the node's address or a pod; pods reach the outside behind the machine's address.
GUARD = f"""*{TABLE}
:{OURS}INPUT - [0:0]
:{OURS}FORWARD - [0:0]
-A {OURS}INPUT -d {NODE_IP}/32 ! -i lo -j {OURS}FORWARD
-A {OURS}FORWARD -i {POD_BRIDGE} -j RETURN
-A {OURS}FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN
-A {OURS}FORWARD -j DROP
-I INPUT 1 -j {OURS}INPUT
-I FORWARD 1 -o {POD_BRIDGE} -j {OURS}FORWARD
COMMIT
*nat
:{OURS}POSTROUTING - [0:0]
-A {OURS}POSTROUTING -s {POD_CIDR} ! -o {POD_BRIDGE} -j MASQUERADE
-I POSTROUTING 1 -j {OURS}POSTROUTING
COMMIT
"""


def restore(rules: str) -> None:
    """Apply rules as one transaction per table, leaving everything else as it is."""
    run(["iptables-restore", "--wait", "10", "--noflush"], stdin=rules)


def rules() -> list[str]:
    """Return our table as iptables' own commands."""
    return run(["iptables", "--wait", "10", "--table", TABLE, "-S"]).splitlines()


def chains(prefix: str) -> set[str]:
    """Return the chains of our table whose name begins with a prefix."""
    return {line.split()[1] for line in rules() if line.startswith(f"-N {prefix}")}


def removal(saved: str, prefixes: Iterable[str] = PREFIXES) -> str:
    """Return what removes, from a dump by iptables-save, the chains that begin with a prefix and every jump to them.

    Empty if there is nothing to remove. Rules of others are not repeated, so what they change meanwhile stays.
    """
    name = f"(?:{'|'.join(re.escape(prefix) for prefix in prefixes)})"
    tables: list[str] = []
    for table in re.split(r"^(?=\*)", saved, flags=re.MULTILINE):
        doomed = re.findall(rf"^:({name}\S*)", table, re.MULTILINE)
        jumps = re.findall(rf"^-A((?! {name}).* -[jg] {name}.*)$", table, re.MULTILINE)
        if doomed:
            lines = [table.splitlines()[0], *(f":{chain} - [0:0]" for chain in doomed)]
            lines += [*(f"-D{jump}" for jump in jumps), *(f"-X {chain}" for chain in doomed), "COMMIT"]
            tables.append("\n".join(lines) + "\n")
    return "".join(tables)


def clean() -> None:
    """Remove every rule and chain of the cluster, in both address families."""
    for family in ("iptables", "ip6tables"):
        if shutil.which(f"{family}-save") is None:
            continue
        try:
            saved = run([f"{family}-save"])
        except ClusterError:
            continue  # the kernel lacks this address family
        if script := removal(saved):
            run([f"{family}-restore", "--wait", "10", "--noflush"], stdin=script)

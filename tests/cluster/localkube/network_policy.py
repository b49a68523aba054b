"""NetworkPolicy for one node with a bridge: Kubernetes leaves the enforcing to the network plugin, and the bridge plugin does not.

`render` is pure: pods, namespaces and policies in, one iptables transaction out. `main` watches and applies. The rules stay if the
process ends: isolation is not lost with it.

A pod that a policy selects gets one chain per direction: allowed traffic returns, the rest is dropped. A pod always reaches itself,
and the node (kubelet's probes) always reaches its pods. Not covered: IPv6, SCTP (no rule lets it through), pods on the host's
network, and connections that were open before a policy came.
"""

from __future__ import annotations

import hashlib
import ipaddress
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import firewall
from .api import Api, Object, changes, mirrors
from .config import POD_BRIDGE
from .shell import ClusterError, say

ROOT = f"{firewall.OURS}POLICY"
POD_PREFIX = f"{firewall.OURS}POD-"
PATHS = ("/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies")
# Every way into and out of a pod passes one of these; the node's own traffic to pods passes none.
HOOKS = (f"FORWARD -i {POD_BRIDGE}", f"FORWARD -o {POD_BRIDGE}", f"INPUT -i {POD_BRIDGE}")

Address = ipaddress.IPv4Network


@dataclass(frozen=True)
class Direction:
    """One half of a policy: where it is written, and which address of a packet is the pod's and which the peer's."""

    kind: Literal["Ingress", "Egress"]
    rules: str
    peers: str
    pod_flag: str
    peer_flag: str


DIRECTIONS = (Direction("Ingress", "ingress", "from", "-d", "-s"), Direction("Egress", "egress", "to", "-s", "-d"))


@dataclass(frozen=True)
class World:
    """What the API server says: pods with an address, namespaces, policies."""

    pods: list[Object]
    namespaces: list[Object]
    policies: list[Object]

    def namespace_labels(self, name: str) -> dict[str, str]:
        return next((labels(item) for item in self.namespaces if item["metadata"]["name"] == name), {})


@dataclass(frozen=True)
class Peer:
    """Addresses on the other side of a rule, and the pod they belong to if it is one."""

    networks: tuple[Address, ...]
    pod: Object | None = None


def labels(item: Object) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def selects(selector: Object, found: dict[str, str]) -> bool:
    """Evaluate a LabelSelector; an empty one selects everything."""
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(meets(expression, found) for expression in selector.get("matchExpressions") or [])


def meets(expression: Object, found: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return found.get(key) in values
        case "NotIn":
            return found.get(key) not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
        case other:
            raise ValueError(f"unknown selector operator {other}")


def has_address(pod: Object) -> bool:
    """Say whether a pod holds an address of the pod network. One that has ended may have lost it to another."""
    status = pod.get("status", {})
    on_pod_network = not pod["spec"].get("hostNetwork") and ":" not in status.get("podIP", ":")
    return on_pod_network and status.get("phase") in ("Pending", "Running")


def pod_network(pod: Object) -> Address:
    return ipaddress.IPv4Network(f"{pod['status']['podIP']}/32")


def resolve(peer: Object, namespace: str, world: World) -> Iterator[Peer]:
    """Yield what a NetworkPolicyPeer stands for, in a policy of `namespace`."""
    if block := peer.get("ipBlock"):
        if networks := block_networks(block["cidr"], block.get("except") or []):
            yield Peer(networks)
        return
    for pod in world.pods:
        home = pod["metadata"]["namespace"]
        space = peer.get("namespaceSelector")
        near = home == namespace if space is None else selects(space, world.namespace_labels(home))
        if near and selects(peer.get("podSelector") or {}, labels(pod)):
            yield Peer((pod_network(pod),), pod)


def block_networks(cidr: str, excepted: Iterable[str]) -> tuple[Address, ...]:
    """Return a CIDR without its exceptions, as networks."""
    whole = ipaddress.ip_network(cidr, strict=False)
    if not isinstance(whole, ipaddress.IPv4Network):
        return ()
    networks = [whole]
    for hole in (ipaddress.IPv4Network(item, strict=False) for item in excepted):
        networks = [part for network in networks for part in without(network, hole)]
    return tuple(sorted(networks))


def without(network: Address, hole: Address) -> Iterable[Address]:
    if hole.subnet_of(network):
        return network.address_exclude(hole)
    return () if network.subnet_of(hole) else (network,)


def port_matches(ports: list[Object], target: Object | None) -> list[str]:
    """Return the iptables matches of a rule's ports: no ports is any traffic, a name is looked up in the pod that is called."""
    if not ports:
        return [""]
    return [match for item in ports for match in port_match(item, target)]


def port_match(item: Object, target: Object | None) -> list[str]:
    protocol, port = item.get("protocol", "TCP"), item.get("port")
    if protocol not in ("TCP", "UDP"):
        return []
    if port is None:
        return [f"-p {protocol.lower()}"]
    numbers = named_ports(target, port, protocol) if isinstance(port, str) else [port]
    end = f":{item['endPort']}" if "endPort" in item else ""
    return [f"-p {protocol.lower()} --dport {number}{end}" for number in numbers]


def named_ports(pod: Object | None, name: str, protocol: str) -> list[int]:
    if pod is None:
        return []
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    ports = [port for container in containers for port in container.get("ports") or []]
    return [p["containerPort"] for p in ports if p.get("name") == name and p.get("protocol", "TCP") == protocol]


def allowed(rule: Object, pod: Object, namespace: str, direction: Direction, world: World) -> Iterator[str]:
    """Yield the matches that one policy rule allows to or from a pod."""
    written = rule.get(direction.peers) or []
    anywhere = [Peer((ipaddress.IPv4Network("0.0.0.0/0"),))]
    peers = [found for peer in written for found in resolve(peer, namespace, world)] if written else anywhere
    for peer in peers:
        called = pod if direction.kind == "Ingress" else peer.pod
        for match in port_matches(rule.get("ports") or [], called):
            for network in peer.networks:
                yield f"{direction.peer_flag} {network} {match}".rstrip()


def applies(policy: Object, pod: Object) -> bool:
    """Say whether a policy selects a pod."""
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and selects(policy["spec"].get("podSelector") or {}, labels(pod))


def chain_name(pod: Object, direction: Direction) -> str:
    digest = hashlib.sha256(pod["metadata"]["uid"].encode()).hexdigest()
    return f"{POD_PREFIX}{direction.kind[0]}-{digest[:10]}"  # iptables takes 28 characters


def chain_rules(pod: Object, direction: Direction, world: World) -> list[str]:
    """Return a pod's chain in one direction; empty if no policy isolates the pod in it."""
    isolating = [p for p in world.policies if applies(p, pod) and direction.kind in p["spec"]["policyTypes"]]
    if not isolating:
        return []
    namespace = pod["metadata"]["namespace"]
    rules = [rule for policy in isolating for rule in policy["spec"].get(direction.rules) or []]
    matches = [match for rule in rules for match in allowed(rule, pod, namespace, direction, world)]
    itself = f"{direction.peer_flag} {pod_network(pod)}"
    chain = chain_name(pod, direction)
    return [*(f"-A {chain} {match} -j RETURN" for match in dict.fromkeys([itself, *matches])), f"-A {chain} -j DROP"]


def render(world: World, existing: Iterable[str] = ()) -> str:
    """Return the transaction that makes the policies hold and removes the `existing` pod chains that are of no use any more."""
    jumps: list[str] = []
    chains: dict[str, list[str]] = {}
    for pod in filter(has_address, world.pods):
        for direction in DIRECTIONS:
            if rules := chain_rules(pod, direction, world):
                chain = chain_name(pod, direction)
                chains[chain] = rules
                jumps.append(f"-A {ROOT} {direction.pod_flag} {pod_network(pod)} -j {chain}")
    stale = sorted(set(existing) - set(chains))
    lines = [f"*{firewall.TABLE}", *(f":{chain} - [0:0]" for chain in (ROOT, *chains, *stale))]
    lines += [f"-A {ROOT} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN", *jumps]
    lines += [rule for rules in chains.values() for rule in rules]
    lines += [*(f"-X {chain}" for chain in stale), "COMMIT"]
    return "\n".join(lines) + "\n"


def install_hooks() -> None:
    """Lead the traffic of pods through our root chain, which must exist."""
    present = firewall.rules()
    missing = [hook for hook in HOOKS if f"-A {hook} -j {ROOT}" not in present]
    inserts = [f"-I {hook.replace(' ', ' 1 ', 1)} -j {ROOT}" for hook in missing]
    firewall.restore("\n".join([f"*{firewall.TABLE}", *inserts, "COMMIT"]) + "\n")


def main(pki: Path) -> None:
    """Follow the API server and apply every change, for ever."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    changed, (pods, namespaces, policies) = mirrors(Api(pki), *PATHS)
    applied = ""
    hooked = False
    for _ in changes(changed):
        world = World(list(filter(has_address, pods.objects())), namespaces.objects(), policies.objects())
        try:
            text = render(world)
            if text == applied:
                continue
            firewall.restore(render(world, firewall.chains(POD_PREFIX)))
            if not hooked:
                install_hooks()
                hooked = True
            applied = text
            say(
                f"{time.strftime('%H:%M:%S')} {len(world.policies)} policies applied: {text.count(' -j DROP')} pod chains"
            )
        except (ClusterError, KeyError, ValueError) as error:
            say(f"policies not applied, trying again: {error!r}")
            time.sleep(1)
            changed.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

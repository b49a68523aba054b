"""What the rendered rules do to packets, by a small interpreter of the iptables commands that are used."""

import ipaddress
from typing import Any

import pytest
from localkube.network_policy import POD_PREFIX, ROOT, World, block_networks, render, selects

DNS_PORT = {"protocol": "UDP", "port": 53}


def pod(name: str, ip: str, namespace: str = "a", **extra: Any) -> dict[str, Any]:
    ports = [{"name": "web", "containerPort": 8000}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", "labels": {"app": name}},
        "spec": {"containers": [{"ports": ports}], **extra.get("spec", {})},
        "status": {"podIP": ip, "phase": extra.get("phase", "Running")},
    }


def policy(selector: dict[str, Any], namespace: str = "a", **spec: Any) -> dict[str, Any]:
    types = [kind for kind in ("Ingress", "Egress") if kind.lower() in spec]
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": selector, "policyTypes": types, **spec}}


def app(name: str) -> dict[str, Any]:
    return {"matchLabels": {"app": name}}


SERVER, FRIEND, STRANGER = pod("server", "10.0.0.1"), pod("friend", "10.0.0.2"), pod("stranger", "10.0.0.3")
ABROAD = pod("friend", "10.0.0.4", namespace="b")
NAMESPACES = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("a", "b")]
OUTSIDE = "192.0.2.1"


def world(*policies: dict[str, Any], pods: tuple[dict[str, Any], ...] = (SERVER, FRIEND, STRANGER, ABROAD)) -> World:
    return World(list(pods), NAMESPACES, list(policies))


def address(of: dict[str, Any] | str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(of if isinstance(of, str) else of["status"]["podIP"])


def passes(text: str, source: Any, target: Any, port: int = 8000, protocol: str = "tcp") -> bool:
    """Send a first packet through the root chain."""
    rules: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("-A "):
            _, chain, *words = line.split()
            rules.setdefault(chain, []).append(words)

    def dropped_in(chain: str) -> bool:
        for words in rules.get(chain, []):
            if not meets(words):
                continue
            goal = words[words.index("-j") + 1]
            if goal in ("DROP", "RETURN"):
                return goal == "DROP"
            if dropped_in(goal):
                return True
        return False

    def meets(words: list[str]) -> bool:
        options = dict(zip(words[::2], words[1::2], strict=True))
        assert set(options) <= {"-s", "-d", "-p", "--dport", "-j", "-m", "--ctstate"}, options
        low, _, high = options.get("--dport", "0:65535").partition(":")
        return (
            "--ctstate" not in options
            and address(source) in ipaddress.IPv4Network(options.get("-s", "0.0.0.0/0"))
            and address(target) in ipaddress.IPv4Network(options.get("-d", "0.0.0.0/0"))
            and options.get("-p", protocol) == protocol
            and int(low) <= port <= int(high or low)
        )

    return not dropped_in(ROOT)


def test_without_a_policy_everything_passes() -> None:
    text = render(world())
    assert passes(text, STRANGER, SERVER)
    assert passes(text, SERVER, OUTSIDE)


def test_network_policy_without_ingress_rules_blocks_only_ingress_to_its_pods() -> None:
    text = render(world(policy(app("server"), ingress=[])))
    assert not passes(text, FRIEND, SERVER)
    assert not passes(text, OUTSIDE, SERVER)
    assert passes(text, SERVER, FRIEND), "egress was not asked for"
    assert passes(text, FRIEND, STRANGER)
    assert passes(text, SERVER, SERVER), "a pod reaches itself"


def test_ingress_from_a_pod_on_a_named_port() -> None:
    rule = {"from": [{"podSelector": app("friend")}], "ports": [{"port": "web"}]}
    text = render(world(policy(app("server"), ingress=[rule])))
    assert passes(text, FRIEND, SERVER, 8000)
    assert not passes(text, FRIEND, SERVER, 8001)
    assert not passes(text, FRIEND, SERVER, 8000, "udp")
    assert not passes(text, STRANGER, SERVER)
    assert not passes(text, ABROAD, SERVER), "a podSelector alone means the policy's namespace"


@pytest.mark.parametrize(
    ("peer", "friend", "stranger", "abroad"),
    [
        ({"namespaceSelector": {}}, True, True, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False, False, True),
        ({"namespaceSelector": {}, "podSelector": app("friend")}, True, False, True),
        ({"podSelector": {}}, True, True, False),
        ({"ipBlock": {"cidr": "10.0.0.0/29", "except": ["10.0.0.3/32"]}}, True, False, True),
        ({"ipBlock": {"cidr": "fd00::/8"}}, False, False, False),
    ],
)
def test_network_policy_peer_selects_sources_by_pod_namespace_or_ip_block(
    peer: dict[str, Any], friend: bool, stranger: bool, abroad: bool
) -> None:
    text = render(world(policy(app("server"), ingress=[{"from": [peer]}])))
    assert [passes(text, source, SERVER) for source in (FRIEND, STRANGER, ABROAD)] == [friend, stranger, abroad]


@pytest.mark.parametrize("rule", [{}, {"from": []}, {"from": None, "ports": None}])
def test_a_rule_without_peers_allows_everybody(rule: dict[str, Any]) -> None:
    assert passes(render(world(policy(app("server"), ingress=[rule]))), OUTSIDE, SERVER)


def test_network_policies_of_a_pod_add_up() -> None:
    first = policy(app("server"), ingress=[{"from": [{"podSelector": app("friend")}]}])
    second = policy({}, ingress=[{"ports": [{"port": 9000, "endPort": 9010}]}])
    text = render(world(first, second))
    assert passes(text, FRIEND, SERVER, 1)
    assert passes(text, STRANGER, SERVER, 9010)
    assert not passes(text, STRANGER, SERVER, 9011)


def test_egress_and_ingress_must_both_allow() -> None:
    leave = policy(app("friend"), egress=[{"to": [{"podSelector": app("server")}], "ports": [{"port": "web"}]}])
    assert passes(render(world(leave)), FRIEND, SERVER, 8000)
    assert not passes(render(world(leave)), FRIEND, STRANGER, 8000)
    assert not passes(render(world(leave)), FRIEND, OUTSIDE)
    assert not passes(render(world(leave, policy(app("server"), ingress=[]))), FRIEND, SERVER, 8000)


def test_network_policy_with_egress_to_dns_opens_udp_port_53_alone() -> None:
    text = render(world(policy(app("friend"), egress=[{"ports": [DNS_PORT, {"protocol": "SCTP", "port": 80}]}])))
    assert passes(text, FRIEND, SERVER, 53, "udp")
    assert not passes(text, FRIEND, SERVER, 53, "tcp")
    assert not passes(text, FRIEND, SERVER, 80, "tcp")


def test_pods_without_an_address_of_their_own_are_left_out() -> None:
    ended = pod("server", "10.0.0.9", phase="Succeeded")
    on_host = pod("server", "10.0.0.9", spec={"hostNetwork": True})
    nowhere = pod("server", "10.0.0.9")
    del nowhere["status"]["podIP"]
    for left_out in (ended, on_host, nowhere):
        text = render(world(policy({}, ingress=[]), pods=(left_out, FRIEND)))
        assert "10.0.0.9" not in text
        assert not passes(text, OUTSIDE, FRIEND)


def test_chains_of_no_use_are_removed_in_the_same_transaction() -> None:
    before = render(world(policy(app("server"), ingress=[])))
    chains = [line.split()[0][1:] for line in before.splitlines() if line.startswith(f":{POD_PREFIX}")]
    assert len(chains) == 1
    after = render(world(), existing=chains).splitlines()
    assert f":{chains[0]} - [0:0]" in after, "a chain must be emptied before it can go"
    assert after[-2:] == [f"-X {chains[0]}", "COMMIT"]
    assert f"-X {chains[0]}" not in render(world(policy(app("server"), ingress=[])), existing=chains)


def test_chain_names_fit_iptables_and_never_mean_the_root() -> None:
    text = render(world(policy({}, ingress=[], egress=[])))
    names = [line.split()[0][1:] for line in text.splitlines() if line.startswith(":")]
    assert len(names) == len(set(names)) == 1 + 2 * 3
    assert all(len(name) <= 28 for name in names), names
    assert not ROOT.startswith(POD_PREFIX), "the root would be taken for a pod's stale chain"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "x", "operator": "In", "values": ["1", "2"]}, True),
        ({"key": "x", "operator": "In", "values": ["2"]}, False),
        ({"key": "y", "operator": "In", "values": ["1"]}, False),
        ({"key": "x", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "y", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "x", "operator": "Exists"}, True),
        ({"key": "y", "operator": "Exists"}, False),
        ({"key": "x", "operator": "DoesNotExist"}, False),
        ({"key": "y", "operator": "DoesNotExist"}, True),
    ],
)
def test_selector_expression_selects_by_its_operator(expression: dict[str, Any], expected: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"x": "1"}) is expected


@pytest.mark.parametrize(
    ("cidr", "excepted", "expected"),
    [
        ("10.0.0.0/30", [], ["10.0.0.0/30"]),
        ("10.0.0.0/30", ["10.0.0.0/31"], ["10.0.0.2/31"]),
        ("10.0.0.0/30", ["10.0.0.0/30"], []),
        ("10.0.0.0/30", ["10.0.0.1/32", "10.0.0.2/32"], ["10.0.0.0/32", "10.0.0.3/32"]),
        ("10.0.0.0/30", ["10.0.0.0/31", "10.0.0.1/32"], ["10.0.0.2/31"]),
    ],
)
def test_ip_block_is_split_around_its_exceptions(cidr: str, excepted: list[str], expected: list[str]) -> None:
    assert [str(network) for network in block_networks(cidr, excepted)] == expected

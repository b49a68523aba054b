"""Service accounts as users of the front: their rights, their tokens, and the sessions that are their own."""

from __future__ import annotations

from sparksql.api.names import ANNOTATION_FRONT_USER, LABEL_FRONT_USER
from sparksql.front.naming import own_name, user_label
from tests.support.harness import Object, Space


def account(space: Space, name: str, *rules: Object) -> None:
    """A service account with these rights in its namespace."""
    metadata = {"name": name, "namespace": space.name}
    space.cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    api = "rbac.authorization.k8s.io/v1"
    space.cluster.create({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": list(rules)})
    binding = {
        "apiVersion": api,
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space.name}],
    }
    space.cluster.create(binding)


def rule(*verbs: str, names: tuple[str, ...] = ()) -> Object:
    """A right to sessions, to all or to some by name."""
    by_name = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": ["sparksql.dev"], "resources": ["sqlsessions"], "verbs": list(verbs), **by_name}


def token(space: Space, name: str, duration: str = "2h") -> str:
    """A new token of an account."""
    return space.cluster.kubectl("create", "token", "-n", space.name, name, f"--duration={duration}").strip()


def user(space: Space, name: str) -> str:
    """The account as the cluster names it."""
    return f"system:serviceaccount:{space.name}:{name}"


def own_session(space: Space, name: str) -> tuple[str, Object]:
    """Name and metadata of the session that the front takes for the account's own, to be made with a spec of the test's."""
    of = user(space, name)
    marks = {"labels": {LABEL_FRONT_USER: user_label(of)}, "annotations": {ANNOTATION_FRONT_USER: of}}
    return own_name(of), marks

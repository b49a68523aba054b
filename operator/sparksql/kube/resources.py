"""The API resources that the operator, the CLI and the tests speak of, and the kinds they are known by."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from sparksql.api import names
from sparksql.kube.errors import NotFound


@dataclass(frozen=True)
class Resource:
    """A resource of the API as its URL needs it: `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Returns `apiVersion` of its objects: group and version, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection_path(self, namespace: str) -> str:
        """URL path of the objects of a namespace, or of all namespaces when it is empty."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{_segment(namespace)}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}"

    def path(self, namespace: str, name: str, subresource: str = "") -> str:
        """URL path of one object. Raises NotFound for a name that no object can have.

        Names come from references in specs as well: one that is empty or climbs up the path must reach nothing else.
        """
        return f"{self.collection_path(namespace)}/{_segment(name)}" + (f"/{subresource}" if subresource else "")


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        raise NotFound(404, "NotFound", f"no object can be named {name!r}")
    return quote(name, safe="")


SESSION_CLASSES = Resource(names.GROUP, names.VERSION, "sqlsessionclasses", namespaced=False)
SESSIONS = Resource(names.GROUP, names.VERSION, "sqlsessions")
STATEMENTS = Resource(names.GROUP, names.VERSION, "sqlstatements")
SAVEPOINTS = Resource(names.GROUP, names.VERSION, "sqlsavepoints")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
SECRETS = Resource("", "v1", "secrets")
CONFIG_MAPS = Resource("", "v1", "configmaps")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims")
EVENTS = Resource("", "v1", "events")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
JOBS = Resource("batch", "v1", "jobs")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases")

BY_KIND = {
    "SqlSessionClass": SESSION_CLASSES,
    "SqlSession": SESSIONS,
    "SqlStatement": STATEMENTS,
    "SqlSavepoint": SAVEPOINTS,
    "Namespace": NAMESPACES,
    "Pod": PODS,
    "Service": SERVICES,
    "Secret": SECRETS,
    "ConfigMap": CONFIG_MAPS,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "PersistentVolumeClaim": VOLUME_CLAIMS,
    "NetworkPolicy": NETWORK_POLICIES,
    "RoleBinding": ROLE_BINDINGS,
    "Job": JOBS,
}

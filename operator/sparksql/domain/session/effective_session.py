"""What a session is made of after all configuration layers are merged and the class's policy has allowed it.

This is the one input of the manifest builders and of the driver's `config.json`. Nothing here is a wish any more: every
value is decided, sizes are numbers, and an `EffectiveSession` that exists may be built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparksql.api.session_class import Scheduling, VolumeClaim
from sparksql.wire.driver import OpenEndpoints


@dataclass(frozen=True)
class ExecutorSize:
    """Sizes the executors of a session.

    `instances` is fixed, or `dynamic` is the least and most of them with dynamic allocation. `cpu` is a Kubernetes
    quantity, as is `cpu_limit`, empty without a limit.
    """

    cpu: str
    cores: int
    memory_mib: int
    instances: int = 1
    dynamic: tuple[int, int] | None = None
    cpu_limit: str = ""


@dataclass(frozen=True)
class DriverSize:
    """Sizes the driver of a session.

    `cpu` is the pod's request (a quantity), `cores` what Spark counts, `pod_mib` request and limit of memory, `cpu_limit` the
    pod's limit of CPU, empty without one.
    """

    cpu: str
    cores: int
    heap_mib: int
    pod_mib: int
    cpu_limit: str = ""


@dataclass(frozen=True)
class EffectiveSession:
    """Holds a session's settings as they apply, class and spec together.

    `conf` is the merged Spark configuration without the keys that the operator itself sets; `network_clients` are
    NetworkPolicyPeers, and the templates PodTemplateSpecs of the class.
    """

    namespace: str
    name: str
    uid: str
    class_name: str
    image: str
    image_pull_policy: str
    driver: DriverSize
    executors: ExecutorSize
    conf: Mapping[str, str]
    enforced_conf: Mapping[str, str]
    service_account: str
    create_service_account: bool
    pool_uid: str = ""  # of the driver of a warm pool that the session has
    endpoints: OpenEndpoints = field(default_factory=OpenEndpoints)
    volume_claim: VolumeClaim | None = None
    warehouse: str = ""
    result_root: str = ""
    database: str = ""  # empty is Spark's own `default`
    jar_prefixes: tuple[str, ...] = ()
    scheduling: Scheduling = field(default_factory=Scheduling)
    network_policy: bool = True
    network_clients: tuple[Mapping[str, Any], ...] = ()  # NetworkPolicyPeer objects
    front_only: bool = False  # no clients but the front's
    driver_template: Mapping[str, Any] = field(default_factory=dict)  # PodTemplateSpec of the class
    executor_template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pods_uid(self) -> str:
        """Returns the UID that the labels of its pods carry: its own, or the one that a driver of a pool was started with."""
        return self.pool_uid or self.uid

"""The context that every controller is given.

It holds the operator's configuration, what the operator has seen, and one object for each way out of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sparksql.cache.pod_ends import PodTerminations
from sparksql.drivers.tracker import DriverTracker
from sparksql.engine.queue import WorkQueue
from sparksql.engine.store import Store
from sparksql.kube.client import KubeClient
from sparksql.kube.events import EventRecorder
from sparksql.kube.status import StatusWriter
from sparksql.process.config import OperatorConfig
from sparksql.process.metrics import Metrics

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class ControllerContext:
    """`clock` gives aware UTC times; `pod_namespace` is where the operator's own pods are, None if it runs in no pod.

    `front_key` is what drivers' tokens for the front follow from, None without a front. In `local_mode` drivers are processes of
    this machine, without executors.
    """

    config: OperatorConfig
    client: KubeClient
    store: Store
    queue: WorkQueue
    status: StatusWriter
    events: EventRecorder
    drivers: DriverTracker
    terminations: PodTerminations
    metrics: Metrics
    clock: Clock
    pod_namespace: str | None = None
    front_key: bytes | None = field(default=None, repr=False)
    local_mode: bool = False

    @property
    def front_host(self) -> str | None:
        """Returns the host of the front's Service, None without a front that drivers know."""
        if self.front_key is None or self.pod_namespace is None:
            return None
        return f"{self.config.front.name}.{self.pod_namespace}.svc"

"""The Spark configuration of a driver, as far as it is known before its pod runs.

Layers, later wins: defaults for failures of executors and for dynamic allocation; the session's merged `conf`; what
follows from its sizes and storage; the class's `enforced_conf`; what makes the driver this session's driver on this
cluster. So nobody, not even the class, can point a driver elsewhere, take authentication off it or have its executors
run as someone else. What only the pod knows (host and bind address) is added by the gateway, and so is what the
gateway's own way of running statements needs.
"""

from __future__ import annotations

from sparksql.api import names
from sparksql.domain.session.effective_session import EffectiveSession, ExecutorSize
from sparksql.kube.builders import pods
from sparksql.wire import driver as wire

# Below what class and session say. Spark keeps an executor that holds shuffle files until the driver's garbage
# collector has found them unused, which it need not do for half an hour (spark.cleaner.periodicGC.interval). Files of a
# job that runs are kept whatever this says; those of an ended one are read again only where a plan is used again, and
# are then computed once more. Two minutes are longer than the pause between two stages of one query, of which each is a
# job of its own.
_DYNAMIC_DEFAULTS = {"spark.dynamicAllocation.shuffleTracking.timeout": "120s"}

# Below what class and session set. Spark ends a driver after max(3, 2 x executors) failed executors, counted over the
# driver's whole life: a session that many share would end for failures of past days. Failures of the last hour count, and
# more of them: a hundred are far beyond executors that single statements exhaust, while a driver whose executors never
# start, which costs seconds per failure, still ends within the hour.
_FAILURES_INTERVAL = "1h"
_MIN_FAILURES = 100
_FAILURES_PER_EXECUTOR = 4  # twice Spark's, so that the bound stays above Spark's for more than 50 executors

API_SERVER = "k8s://https://kubernetes.default.svc"


def spark_conf(session: EffectiveSession, incarnation: int) -> dict[str, str]:
    """Spark properties for the `config.json` of the driver's `incarnation`."""
    warehouse = {"spark.sql.warehouse.dir": session.warehouse} if session.warehouse else {}
    return {
        **_defaults(session.executors),
        **session.conf,
        **warehouse,
        **_sizes(session),
        **session.enforced_conf,
        **_identity(session, incarnation),
    }


def _defaults(size: ExecutorSize) -> dict[str, str]:
    most = size.instances if size.dynamic is None else size.dynamic[1]
    return {
        "spark.executor.failuresValidityInterval": _FAILURES_INTERVAL,
        "spark.executor.maxNumFailures": str(max(_MIN_FAILURES, _FAILURES_PER_EXECUTOR * most)),
        **(_DYNAMIC_DEFAULTS if size.dynamic is not None else {}),
    }


def _sizes(session: EffectiveSession) -> dict[str, str]:
    size = session.executors
    return {
        "spark.driver.cores": str(session.driver.cores),
        "spark.executor.cores": str(size.cores),
        "spark.executor.memory": f"{size.memory_mib}m",
        "spark.kubernetes.executor.request.cores": size.cpu,
        **({"spark.kubernetes.executor.limit.cores": size.cpu_limit} if size.cpu_limit else {}),
        **_allocation(size),
    }


def _allocation(size: ExecutorSize) -> dict[str, str]:
    """A fixed number of executors, or dynamic allocation that keeps those whose shuffle files are still wanted."""
    if size.dynamic is None:
        return {"spark.dynamicAllocation.enabled": "false", "spark.executor.instances": str(size.instances)}
    least, most = size.dynamic
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(least),
        "spark.dynamicAllocation.initialExecutors": str(least),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def _identity(session: EffectiveSession, incarnation: int) -> dict[str, str]:
    pod_name = names.driver_pod_name(session.name, session.uid, incarnation)
    return {
        "spark.master": API_SERVER,
        "spark.app.name": f"{session.namespace}/{session.name}",
        "spark.authenticate": "true",
        # Files, so that Spark writes no secret into the specs of pods. Executors read theirs in the image's entrypoint.
        "spark.authenticate.secret.driver.file": f"{wire.DEFAULT_CONFIG_DIR}/{wire.EXECUTOR_SECRET_FILE}",
        "spark.authenticate.secret.executor.file": f"{wire.EXECUTOR_SECRET_DIR}/{wire.EXECUTOR_SECRET_FILE}",
        "spark.ui.killEnabled": "false",
        "spark.driver.port": str(wire.DRIVER_RPC_PORT),
        "spark.blockManager.port": str(wire.BLOCK_MANAGER_PORT),  # of executors as well: the network policy's one port
        "spark.driver.blockManager.port": str(wire.BLOCK_MANAGER_PORT),
        "spark.kubernetes.namespace": session.namespace,
        "spark.kubernetes.container.image": session.image,
        "spark.kubernetes.container.image.pullPolicy": session.image_pull_policy,
        "spark.kubernetes.authenticate.executor.serviceAccountName": session.service_account,
        "spark.kubernetes.executor.podNamePrefix": pod_name,
        f"spark.kubernetes.executor.label.{names.LABEL_INCARNATION}": str(incarnation),
        "spark.kubernetes.executor.podTemplateFile": f"{wire.DEFAULT_CONFIG_DIR}/{wire.EXECUTOR_TEMPLATE_FILE}",
        "spark.kubernetes.executor.podTemplateContainerName": pods.CONTAINER,
        # Driver and executors run the same image: its own configuration folder serves both.
        "spark.kubernetes.executor.disableConfigMap": "true",
        # Drivers have no rights to Services and claims: without these Spark asks for them and logs the refusals.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    }

"""SqlSessionClass: what the platform team offers: an image, defaults, limits, and what tenants may ask for."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sparksql.api.base import FREE_FORM, SET_LIST, ApiModel, ApiObject, cel, ratcheting, validated
from sparksql.api.conditions import Conditions
from sparksql.api.fields import SAFE_INT_MAX, Count, Cpu, Image, LabelMap, Memory, ObjectName, Seconds, SparkConf, Uri
from sparksql.api.settings import SessionSettings

Pattern = Annotated[str, Field(min_length=1, max_length=512)]
FreeForm = Annotated[dict[str, Any], Field(json_schema_extra=FREE_FORM)]


class ImagePullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class DriverLimits(ApiModel):
    cpu: Cpu | None = Field(None, description="Largest CPU request of a driver; absent = no limit.")
    memory: Memory | None = Field(None, description="Largest heap of a driver; absent = no limit.")


class ExecutorLimits(ApiModel):
    instances: int | None = Field(None, ge=0, le=10_000, description="Most executors of a session; absent = no limit.")
    cpu: Cpu | None = Field(None, description="Largest CPU request of an executor; absent = no limit.")
    memory: Memory | None = Field(
        None,
        description="Largest heap of an executor, and by it the largest pod: what conf adds (overhead, off-heap, Python) counts; absent = no limit.",
    )


class Limits(ApiModel):
    """A session or statement beyond a limit is refused with LimitExceeded; it is never cut down silently."""

    driver: DriverLimits = Field(DriverLimits(), description="Limits of the driver.")
    executors: ExecutorLimits = Field(ExecutorLimits(), description="Limits of the executors.")
    sessions: int | None = Field(
        None,
        ge=0,
        le=100_000,
        description="Sessions of this class that may have a driver at the same time, in all namespaces together; absent = no limit.",
    )
    sessions_per_namespace: int | None = Field(
        None,
        ge=0,
        le=10_000,
        description="Sessions of this class that may have a driver at the same time in one namespace; absent = no limit.",
    )
    queued_statements_per_session: int | None = Field(
        None, ge=0, le=1_000_000, description="Statements that may wait for one session; absent = no limit."
    )
    execution_seconds: Seconds = Field(0, description="Longest execution of a statement; 0 = no limit.")
    preview_rows: int = Field(100, ge=0, le=1000, description="Most result rows in a status; 0 = none at all.")


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(ApiModel):
    model_config = validated(
        cel(
            "self.operator in ['In', 'NotIn'] ? (has(self.values) && self.values.size() > 0) "
            ": (!has(self.values) || self.values.size() == 0)",
            "In and NotIn need values; Exists and DoesNotExist take none",
        )
    )

    key: str = Field(min_length=1, max_length=317, description="Label key.")
    operator: SelectorOperator = Field(description="How the label is compared with the values.")
    values: tuple[Annotated[str, Field(max_length=63)], ...] = Field(
        (), max_length=64, json_schema_extra=SET_LIST, description="Label values, for In and NotIn."
    )


class LabelSelector(ApiModel):
    """Kubernetes label selector: all requirements hold. An empty one selects everything."""

    match_labels: LabelMap = Field(default_factory=dict, description="Labels that must be present with these values.")
    match_expressions: tuple[LabelRequirement, ...] = Field((), max_length=32, description="Requirements on labels.")


class Allow(ApiModel):
    """What a session or a statement may ask for; anything else is refused with NotAllowed."""

    namespaces: LabelSelector = Field(
        LabelSelector(), description="Namespaces that may use the class, by label; empty = all."
    )
    images: tuple[Pattern, ...] = Field(
        (),
        max_length=64,
        json_schema_extra=SET_LIST,
        description="Images besides `image`: exact, or a prefix ending in `*`.",
    )
    service_accounts: tuple[ObjectName, ...] = Field(
        (), max_length=64, json_schema_extra=SET_LIST, description="Service accounts besides `serviceAccount.name`."
    )
    conf: tuple[Pattern, ...] = Field(
        ("spark.sql.*",),
        max_length=256,
        json_schema_extra=SET_LIST,
        description="Spark configuration keys: exact, or a prefix ending in `*`, which gives the reviewed keys below it. A fixed deny-list always holds.",
    )
    jar_prefixes: tuple[Uri, ...] = Field(
        (), max_length=64, json_schema_extra=SET_LIST, description="URI prefixes of what ADD JAR and ADD FILE may load."
    )


class ServiceAccount(ApiModel):
    create: bool = Field(
        True, description="Make the account in a session's namespace when absent, bound to the driver role."
    )
    name: ObjectName = Field("spark", description="Service account of the drivers of this class.")


class PodTemplates(ApiModel):
    driver: FreeForm = Field(default_factory=dict, description="PodTemplateSpec that the driver pod starts from.")
    executor: FreeForm = Field(default_factory=dict, description="PodTemplateSpec that the executor pods start from.")


class VolumeClaim(ApiModel):
    name: ObjectName = Field(description="PersistentVolumeClaim in each session's namespace.")
    mount_path: str = Field(
        min_length=2, max_length=1024, pattern="^/[^:]*$", description="Where drivers and executors see it."
    )


class Storage(ApiModel):
    """Any Hadoop file system URI: file, s3a, abfs, gs, hdfs."""

    volume_claim: VolumeClaim | None = Field(None, description="Shared volume for drivers and executors.")
    warehouse: Uri | None = Field(None, description="Root of managed tables.")
    checkpoint_root: Uri | None = Field(None, description="Root of the checkpoints of streaming statements.")
    savepoint_root: Uri | None = Field(None, description="Root of savepoints.")
    result_root: Uri | None = Field(None, description="Root of results that are too large for the driver's memory.")


class Scheduling(ApiModel):
    """What is passed to queue systems (YuniKorn, Volcano, Kueue): a scheduler's name, labels and a priority class of all pods."""

    scheduler_name: str = Field("", max_length=253, description="Scheduler of all pods; empty = the cluster's default.")
    queue_label: LabelMap = Field(default_factory=dict, description="Labels of all pods that name their queue.")
    priority_class_name: str = Field("", max_length=253, description="Priority class of all pods; empty = none.")


class NetworkPolicy(ApiModel):
    enabled: bool = Field(True, description="Make a NetworkPolicy that admits only executors, operator and clients.")
    clients: tuple[FreeForm, ...] = Field(
        (),
        max_length=64,
        description="NetworkPolicyPeer objects: who else may reach a session's endpoints.",
    )


DRIVER_PORTS = (7078, 7079, 8443, 10000, 15002)  # of Spark and of the gateway's own frontends
_TAKEN_NAMES = ("blockmanager", "connect", "control", "driver-rpc", "https", "rest", "thrift")


class Frontend(ApiModel):
    """A way for clients to speak to a session that a Python package in the session image adds."""

    model_config = validated(
        cel(
            f"!(self.name in {[*_TAKEN_NAMES]!r})",
            "the name is that of one of the gateway's own frontends or ports: give the package's entry point another one",
        ),
        cel(
            f"!(self.port in {[*DRIVER_PORTS]!r})",
            "the port is one of the driver's own: choose another one",
        ),
    )

    name: str = Field(
        min_length=1,
        max_length=15,
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        description="Entry point of the package in the group `sparksql.frontends`, and name of the port.",
    )
    port: int = Field(ge=1024, le=65535, description="Port of the driver at which it listens.")


class Share(StrEnum):
    """Which session a client of the front gets that names none."""

    CONNECTION = "Connection"
    USER = "User"
    NAMED = "Named"


class Front(ApiModel):
    share: Share = Field(
        Share.USER,
        description="Which session a client of the front gets that names none: User = the user's own, shared by all connections of "
        "that user; Connection = one of its own, gone with the connection; Named = none, it must name one. Of the class that such "
        "sessions have, the cluster's default class.",
    )
    max_sessions_per_user: int = Field(
        0, ge=0, le=10_000, description="Sessions that the front makes for one user at most; 0 = no limit."
    )
    only: bool = Field(
        False,
        description="Let clients reach sessions through the front alone: their NetworkPolicy admits no others, whatever "
        "`networkPolicy.clients` says.",
    )


class WarmPool(ApiModel):
    """Drivers that are started ahead of need, with their executors, and given to sessions whose settings they fit."""

    size: int = Field(0, ge=0, le=100, description="Drivers kept ready in each of the namespaces; 0 = none.")
    max_age_seconds: Seconds = Field(
        3600, description="Age at which a driver that no session has is replaced; 0 = never."
    )
    namespaces: tuple[ObjectName, ...] = Field(
        (),
        max_length=64,
        json_schema_extra=SET_LIST,
        description="Where they are kept, for the sessions there: a pod cannot change its namespace. Each costs what `size` "
        "drivers with their executors take, used or not.",
    )


class SqlSessionClassSpec(ApiModel):
    model_config = validated(
        cel(
            "!has(self.frontends) || self.frontends.all(f, self.frontends.filter(g, g.name == f.name || g.port == f.port).size() == 1)",
            "each entry of frontends needs a name and a port of its own",
        ),
        ratcheting(
            "!self.front.only || self.networkPolicy.enabled",
            "front.only has no effect without networkPolicy.enabled, as the NetworkPolicy keeps other clients out: set "
            "networkPolicy.enabled, or remove front.only",
            ".front.only",
        ),
    )

    description: str = Field("", max_length=1024, description="For people: what this class is for.")
    image: Image = Field(description="Session image of the platform.")
    image_pull_policy: ImagePullPolicy = Field(ImagePullPolicy.IF_NOT_PRESENT, description="When the image is pulled.")
    defaults: SessionSettings = Field(
        SessionSettings(), description="Lowest configuration layer above the operator's own defaults."
    )
    enforced_conf: SparkConf = Field(
        default_factory=dict, description="Spark configuration that wins over every layer, statements included."
    )
    limits: Limits = Field(Limits(), description="What a session or a statement may use at most.")
    allow: Allow = Field(Allow(), description="What a session or a statement may request.")
    service_account: ServiceAccount = Field(ServiceAccount(), description="Service account of the drivers.")
    pod_template: PodTemplates = Field(PodTemplates(), description="Pod templates; the platform's, never a tenant's.")
    storage: Storage = Field(Storage(), description="Locations of tables, checkpoints, savepoints and results.")
    scheduling: Scheduling = Field(Scheduling(), description="Scheduler, queue and priority of all pods.")
    network_policy: NetworkPolicy = Field(NetworkPolicy(), description="Who may reach a session over the network.")
    frontends: tuple[Frontend, ...] = Field(
        (),
        max_length=8,
        description="Frontends besides the gateway's own, of packages in the session image; drivers that start from now on have them.",
    )
    front: Front = Field(Front(), description="How clients of the front share sessions of this class.")
    warm_pool: WarmPool = Field(WarmPool(), description="Drivers started ahead of need.")


class WarmPoolMember(ApiModel):
    namespace: ObjectName = Field(description="Namespace of the driver's pod.")
    uid: Annotated[str, Field(max_length=64)] = Field(
        description="UID of the driver, which is in the names of its children."
    )
    pod_name: ObjectName = Field(description="The driver's pod.")
    pod_uid: Annotated[str, Field(max_length=64)] = Field(
        "", alias="podUID", description="UID of that pod. Empty until the pod exists: the record comes before the pod."
    )
    key: Annotated[str, Field(max_length=64)] = Field(
        description="Hash of the configuration that the driver was started with."
    )


class WarmPoolStatus(ApiModel):
    ready: Count = Field(0, description="Drivers that a session can have at once.")
    starting: Count = Field(0, description="Drivers that are starting.")
    members: tuple[WarmPoolMember, ...] = Field(
        (),
        max_length=6400,
        description="Drivers that the operator created and that no session uses yet. A session never gets a pod that is not listed "
        "here.",
    )


class SqlSessionClassStatus(ApiModel):
    observed_generation: int = Field(
        -1, ge=-1, le=SAFE_INT_MAX, description="Generation of the spec that this is about."
    )
    warm_pool: WarmPoolStatus | None = Field(
        None,
        description="Drivers started ahead of need. Absent without `warmPool.size`, once no driver is left.",
    )
    conditions: Conditions = Field((), description="Ready, Reconciling, Stalled, WarmPool.")


class SqlSessionClass(ApiObject):
    """A kind of session that the platform team offers, with defaults, limits and policy."""

    KIND: ClassVar[str] = "SqlSessionClass"
    PLURAL: ClassVar[str] = "sqlsessionclasses"
    SHORT_NAME: ClassVar[str] = "sqlclass"
    NAMESPACED: ClassVar[bool] = False

    spec: SqlSessionClassSpec
    status: SqlSessionClassStatus = SqlSessionClassStatus()

"""From a session's wishes and its class to an `EffectiveSession`, or a `Violation` that names field, value and remedy.

Everything a tenant may ask for is checked here, before anything is made: namespace, image, service account, configuration
keys, sizes. What the class sets itself is the platform's own business and is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparksql.api import gateway_settings
from sparksql.api.conf_policy import field_of, is_allowed, is_denied, similar_key, wrong_value
from sparksql.api.fields import INT32_MAX
from sparksql.api.gateway_settings import InvalidSetting
from sparksql.api.quantities import cpu_cores, cpu_millis, memory_mib
from sparksql.api.reasons import Reason
from sparksql.api.session import ConfigurationEntry, ConfigurationLayer, SessionTemplate, SqlSession
from sparksql.api.session_class import LabelSelector, Limits, SelectorOperator, SqlSessionClass
from sparksql.api.settings import Endpoints, SessionSettings, StatementTimeouts
from sparksql.domain.session import memory
from sparksql.domain.session.configuration_layers import FRONTEND_ENTRY, OPERATOR_DEFAULTS, configuration, merge
from sparksql.domain.session.effective_session import DriverSize, EffectiveSession, ExecutorSize
from sparksql.domain.violation import Violation
from sparksql.wire.driver import ClientLimits, FrontendPort, OpenEndpoints

PYTHON_OVERHEAD_MIB = 600  # contract: Python and off-heap memory of a driver, beyond Spark's own overhead
MIN_OVERHEAD_MIB = 384  # Spark: spark.driver.memoryOverhead is max(384 MiB, 10 % of the heap)
OVERHEAD_FACTOR = 0.10


@dataclass(frozen=True)
class Resolved:
    """Holds what came of a session and its class.

    `effective` is what is built; `settings` the merged layers (idle, timeouts, limits on statements); `configuration` both for
    people, with the layer of each value.
    """

    effective: EffectiveSession
    settings: SessionSettings
    configuration: tuple[ConfigurationEntry, ...] = ()


def settings_of(
    template: SessionTemplate, session_class: SqlSessionClass, operator_defaults: SessionSettings
) -> SessionSettings:
    """Merges all layers of a session."""
    return merge(OPERATOR_DEFAULTS, operator_defaults, session_class.spec.defaults, template)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tells whether a Kubernetes label selector selects an object with `labels`."""
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for requirement in selector.match_expressions:
        value = labels.get(requirement.key)
        match requirement.operator:
            case SelectorOperator.IN:
                holds = value in requirement.values
            case SelectorOperator.NOT_IN:
                holds = value not in requirement.values
            case SelectorOperator.EXISTS:
                holds = value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                holds = value is None
        if not holds:
            return False
    return True


def matches(pattern: str, value: str) -> bool:
    """Tells whether an entry of an allow-list takes `value`: exact, or a prefix ending in `*`."""
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern


def resolve(
    session: SqlSession,
    session_class: SqlSessionClass,
    namespace_labels: Mapping[str, str],
    operator_defaults: SessionSettings,
) -> Resolved | Violation:
    """Returns the session as it may be built, or why not."""
    spec = session.spec
    settings = settings_of(spec, session_class, operator_defaults)
    violation = _refused_by_policy(
        spec, session_class, namespace_labels, session.metadata.namespace
    ) or _refused_by_gateway(spec, session_class, operator_defaults)
    if violation is not None:
        return violation
    driver, executors = _driver(settings), _executors(settings)
    violation = (
        _small_cpu_limit(settings)
        or _beyond_limits(settings, session_class)
        or _pod_beyond_limits(spec, settings, session_class, operator_defaults)
    )
    if violation is not None:
        return violation
    asked = settings.endpoints or Endpoints()
    storage = session_class.spec.storage
    account = spec.service_account_name or session_class.spec.service_account.name
    built = EffectiveSession(
        namespace=session.metadata.namespace,
        name=session.metadata.name,
        uid=session.metadata.uid,
        class_name=session_class.metadata.name,
        image=spec.image or session_class.spec.image,
        image_pull_policy=session_class.spec.image_pull_policy,
        driver=driver,
        executors=executors,
        conf=dict(settings.conf),
        enforced_conf=dict(session_class.spec.enforced_conf),
        service_account=account,
        create_service_account=session_class.spec.service_account.create
        and account == session_class.spec.service_account.name,
        endpoints=OpenEndpoints(
            rest=bool(asked.rest),
            connect=bool(asked.connect),
            thrift=bool(asked.thrift),
            frontends=tuple(FrontendPort(name=each.name, port=each.port) for each in session_class.spec.frontends),
        ),
        volume_claim=storage.volume_claim,
        warehouse=storage.warehouse or "",
        result_root=storage.result_root or "",
        database=database_name(settings.database or "", session.metadata.namespace),
        jar_prefixes=tuple(session_class.spec.allow.jar_prefixes),
        scheduling=session_class.spec.scheduling,
        network_policy=session_class.spec.network_policy.enabled,
        network_clients=session_class.spec.network_policy.clients,
        front_only=session_class.spec.front.only,
        driver_template=session_class.spec.pod_template.driver,
        executor_template=session_class.spec.pod_template.executor,
    )
    return Resolved(built, settings, _configuration(spec, session_class, operator_defaults, session.metadata.namespace))


def database_name(template: str, namespace: str) -> str:
    """Returns the database that a template of `spec.database` means in a namespace.

    Databases cannot have `-` in their names and namespaces no `_`, so that no two namespaces meet.
    """
    return template.replace("{namespace}", namespace.replace("-", "_"))


def client_limits(settings: SessionSettings, limits: Limits) -> ClientLimits:
    """Returns the limits of clients' statements in a session with these merged settings, of a class with these limits."""
    timeouts = settings.statement_timeouts or StatementTimeouts()
    execution, most = timeouts.execution_seconds or 0, limits.execution_seconds
    queues = (settings.max_queued_statements, limits.queued_statements_per_session)
    return ClientLimits(
        queue_seconds=timeouts.queue_seconds or 0,
        execution_seconds=min(execution or most, most) if most else execution,
        max_execution_seconds=most,
        # The driver cannot tell one that goes at once from one that waits: it needs a place for it, and 0 is no limit there.
        max_queued=max(1, min(limit for limit in (*queues, INT32_MAX) if limit is not None)),
    )


def _configuration(
    spec: SessionTemplate, session_class: SqlSessionClass, operator_defaults: SessionSettings, namespace: str
) -> tuple[ConfigurationEntry, ...]:
    own = {name: value for name, value in spec if name in SessionSettings.model_fields}
    layers = (
        (ConfigurationLayer.OPERATOR, merge(OPERATOR_DEFAULTS, operator_defaults)),
        (ConfigurationLayer.CLASS, session_class.spec.defaults),
        (ConfigurationLayer.SESSION, SessionSettings(**own)),
    )
    entries = configuration(layers, session_class.spec.enforced_conf)
    frontends = (
        ConfigurationEntry(name=FRONTEND_ENTRY + each.name, value=str(each.port), layer=ConfigurationLayer.CLASS)
        for each in session_class.spec.frontends
    )
    return (
        *(
            entry.replace(value=database_name(entry.value, namespace)) if entry.name == "database" else entry
            for entry in entries
        ),
        *frontends,
    )


def _refused_by_policy(
    spec: SessionTemplate, session_class: SqlSessionClass, namespace_labels: Mapping[str, str], namespace: str
) -> Violation | None:
    name, allow = session_class.metadata.name, session_class.spec.allow
    if not selects(allow.namespaces, namespace_labels):
        return Violation(
            Reason.NOT_ALLOWED,
            f"spec.className: class {name} does not allow namespace {namespace} (its labels do not match allow.namespaces); "
            "choose another class or ask the platform team",
        )
    image = spec.image
    if image is not None and image != session_class.spec.image and not any(matches(p, image) for p in allow.images):
        return Violation(
            Reason.NOT_ALLOWED,
            f"spec.image: {image} is not in allow.images of class {name}; leave it out to take the class's image",
        )
    account = spec.service_account_name
    accounts = {session_class.spec.service_account.name, *allow.service_accounts}
    if account is not None and account not in accounts:
        return Violation(
            Reason.NOT_ALLOWED,
            f"spec.serviceAccountName: {account} is not allowed by class {name}; use one of the accounts that the class allows: "
            f"{', '.join(sorted(accounts))}",
        )
    return conf_refusal(spec.conf, session_class, "spec.conf")


def _refused_by_gateway(
    spec: SessionTemplate, session_class: SqlSessionClass, operator_defaults: SessionSettings
) -> Violation | None:
    """Why the gateway would not start with its settings; the message names the strongest layer that says one of them."""
    name = session_class.metadata.name
    layers = (
        (f"spec.enforcedConf of class {name}", session_class.spec.enforced_conf),
        ("spec.conf", spec.conf),
        (f"spec.defaults.conf of class {name}", session_class.spec.defaults.conf),
        ("defaults.conf of the operator", operator_defaults.conf),
    )
    try:
        gateway_settings.parse({key: value for _, conf in reversed(layers) for key, value in conf.items()})
    except InvalidSetting as invalid:
        field = next(field for field, conf in layers if conf.keys() & set(invalid.keys))
        return Violation(Reason.INVALID_SPEC, f"{field}: {invalid}")
    return None


def conf_refusal(conf: Mapping[str, str], session_class: SqlSessionClass, field: str) -> Violation | None:
    """Tells why a tenant may not set one of these keys; the message names the key as it was written."""
    for key, value in conf.items():
        if is_denied(key):
            instead = field_of(key)
            remedy = "remove it" if instead is None else f"set {instead} of the session instead"
            return Violation(
                Reason.NOT_ALLOWED, f"{field}: key {key!r} can never be set by a session or statement; {remedy}"
            )
        if not is_allowed(key, session_class.spec.allow.conf):
            patterns = ", ".join(session_class.spec.allow.conf) or "none"
            similar = similar_key(key, session_class.spec.allow.conf)
            remedy = "remove it" if similar is None else f"did you mean {similar!r}? Otherwise remove it"
            return Violation(
                Reason.NOT_ALLOWED,
                f"{field}: key {key!r} is not allowed by class {session_class.metadata.name} (allow.conf: {patterns}, where * gives "
                f"reviewed keys only); {remedy}, or have the class name it in full",
            )
        fits = wrong_value(key, value)
        if fits is not None:
            return Violation(Reason.NOT_ALLOWED, f"{field}: key {key!r} is {value[:200]!r}: it takes {fits}")
    return None


def _driver(settings: SessionSettings) -> DriverSize:
    assert settings.driver and settings.driver.cpu and settings.driver.memory
    heap = memory_mib(settings.driver.memory)
    overhead = max(MIN_OVERHEAD_MIB, int(heap * OVERHEAD_FACTOR)) + PYTHON_OVERHEAD_MIB
    return DriverSize(
        settings.driver.cpu, cpu_cores(settings.driver.cpu), heap, heap + overhead, settings.driver.cpu_limit or ""
    )


def _executors(settings: SessionSettings) -> ExecutorSize:
    wish = settings.executors
    assert wish and wish.cpu and wish.memory
    dynamic = (wish.min or 0, wish.max) if wish.max is not None else None
    fixed = wish.instances if wish.instances is not None else 1
    return ExecutorSize(
        cpu=wish.cpu,
        cores=cpu_cores(wish.cpu),
        memory_mib=memory_mib(wish.memory),
        instances=0 if dynamic else fixed,
        dynamic=dynamic,
        cpu_limit=wish.cpu_limit or "",
    )


def _small_cpu_limit(settings: SessionSettings) -> Violation | None:
    """Returns why a limit of CPU cannot be: it is below the request, which may come from another layer."""
    for field, size in (("spec.driver", settings.driver), ("spec.executors", settings.executors)):
        if size is None or size.cpu is None or size.cpu_limit is None:
            continue
        if cpu_millis(size.cpu_limit) < cpu_millis(size.cpu):
            wrong = f"{field}.cpuLimit: {size.cpu_limit} is less than {field}.cpu ({size.cpu})"
            return Violation(Reason.INVALID_SPEC, f"{wrong}; raise cpuLimit, or reduce cpu")
    return None


def _beyond_limits(settings: SessionSettings, session_class: SqlSessionClass) -> Violation | None:
    limits, driver, executors = session_class.spec.limits, settings.driver, settings.executors
    assert driver and driver.cpu and driver.memory and executors and executors.cpu and executors.memory
    for field, value, limit, size in (
        ("spec.driver.cpu", driver.cpu, limits.driver.cpu, cpu_millis),
        ("spec.driver.memory", driver.memory, limits.driver.memory, memory_mib),
        ("spec.executors.cpu", executors.cpu, limits.executors.cpu, cpu_millis),
        ("spec.executors.memory", executors.memory, limits.executors.memory, memory_mib),
    ):
        if limit is not None and size(value) > size(limit):
            return _too_much(field, value, limit, session_class)
    count = executors.max if executors.max is not None else executors.instances
    most = limits.executors.instances
    if count is not None and most is not None and count > most:
        field = "spec.executors.max" if executors.max is not None else "spec.executors.instances"
        return _too_much(field, str(count), str(most), session_class)
    return None


def _pod_beyond_limits(
    spec: SessionTemplate, settings: SessionSettings, session_class: SqlSessionClass, operator_defaults: SessionSettings
) -> Violation | None:
    """Returns why what the session adds to its executors' heap is too much, None if it is not.

    Their pods may be as large as with the largest heap that the class allows and the platform's own settings. What the
    platform itself adds is on both sides.
    """
    assert settings.executors and settings.executors.memory
    limit, heap = session_class.spec.limits.executors.memory, memory_mib(settings.executors.memory)
    platform = {**operator_defaults.conf, **session_class.spec.defaults.conf, **session_class.spec.enforced_conf}
    merged = {**settings.conf, **session_class.spec.enforced_conf}
    own = [key for key in memory.KEYS if key in spec.conf and key not in session_class.spec.enforced_conf]
    if not own:
        return None
    try:
        asked = memory.pod_mib(heap, merged)
        most = None if limit is None else memory.pod_mib(memory_mib(limit), platform)
    except memory.InvalidSize as invalid:
        where = "spec.conf" if invalid.key in own else f"conf of class {session_class.metadata.name}"
        return Violation(Reason.INVALID_SPEC, f"{where}: {invalid.key}: {invalid}")
    if most is None or asked <= most:
        return None
    named = ", ".join(f"{key} {spec.conf[key]}" for key in own)
    return Violation(
        Reason.LIMIT_EXCEEDED,
        f"spec.conf: with {named} the pod of an executor asks for {asked}Mi, of which {heap}Mi are spec.executors.memory; class "
        f"{session_class.metadata.name} allows {most}Mi, the pod of an executor with a heap of {limit}; request {asked - most}Mi less",
    )


def _too_much(field: str, value: str, limit: str, session_class: SqlSessionClass) -> Violation:
    return Violation(
        Reason.LIMIT_EXCEEDED,
        f"{field}: {value} is more than class {session_class.metadata.name} allows ({limit}); reduce it to {limit} or less",
    )

"""Reasons of conditions and events: the fixed set of constants that programs may rely on.

An event's reason is the reason of the condition that it announces.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Lists the reasons of conditions, Events and errors: CamelCase constants for programs, a part of the API."""

    # Any kind
    PENDING = "Pending"  # not looked at yet
    NOT_IMPLEMENTED = "NotImplemented"
    INVALID_SPEC = "InvalidSpec"
    NOT_ALLOWED = "NotAllowed"
    LIMIT_EXCEEDED = "LimitExceeded"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FAILED_CREATE = "FailedCreate"  # the API server or an admission webhook answered a creation with an error
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    DELETING = "Deleting"
    FINALIZER_DEADLINE = "FinalizerDeadline"  # let go without having cleaned up

    # Session
    READY = "Ready"
    HIBERNATES_WHEN_IDLE = "HibernatesWhenIdle"
    HOLDS_SESSION_STATE = "HoldsSessionState"  # what a driver that ends would take with it
    HIBERNATING = "Hibernating"
    HIBERNATED = "Hibernated"
    WAKING = "Waking"
    STOPPED = "Stopped"
    IDLE_TIMEOUT = "IdleTimeout"
    MAX_LIFETIME_REACHED = "MaxLifetimeReached"
    CLASS_NOT_FOUND = "ClassNotFound"
    UNSCHEDULABLE = "Unschedulable"
    WAITING_IN_QUEUE = "WaitingInQueue"  # a queue system holds the driver pod back; no deadline of ours
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_NOT_STARTED = "ContainerNotStarted"  # the message has the kubelet's reason, as CreateContainerConfigError
    STORAGE_NOT_READY = "StorageNotReady"
    INIT_SOURCE_NOT_FOUND = "InitSourceNotFound"  # an init entry's ConfigMap or key is missing
    INIT_FAILED = "InitFailed"
    DRIVER_STARTING = "DriverStarting"
    DRIVER_NOT_READY = "DriverNotReady"
    DRIVER_LOST = "DriverLost"
    DRIVER_RESTARTING = "DriverRestarting"
    DRIVER_TERMINATING = "DriverTerminating"  # the old pod must be gone before a new one starts
    SPEC_CHANGED = "SpecChanged"
    RESTART_REQUESTED = "RestartRequested"
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded"  # the message has the last loss
    CHILD_CONFLICT = "ChildConflict"  # a child's name is taken by an object of someone else
    OLDER_DRIVER = "OlderDriver"  # than the operator
    NEWER_DRIVER = "NewerDriver"
    INCOMPATIBLE_DRIVER = "IncompatibleDriver"
    DOES_NOT_FIT_POOL = "DoesNotFitPool"  # no driver of the class's warm pool is what the session asks for
    NOT_APPLIED = "NotApplied"  # local mode has no pods that it could be applied to
    EXECUTORS_READY = "ExecutorsReady"
    EXECUTORS_STARTING = "ExecutorsStarting"
    EXECUTORS_FAILING = "ExecutorsFailing"
    SESSION_STATE_LOST = "SessionStateLost"
    CLIENT_SESSIONS_CLOSED = "ClientSessionsClosed"

    # Statement: waiting and running
    SESSION_NOT_READY = "SessionNotReady"
    WAITING_FOR_DEPENDENCIES = "WaitingForDependencies"
    WAITING_FOR_SOURCE = "WaitingForSource"  # sqlFrom or a parameter's ConfigMap or Secret is missing
    QUEUED_BEHIND_STATEMENTS = "QueuedBehindStatements"
    RETRYING = "Retrying"
    SUBMITTED = "Submitted"
    DRIVER_REFUSED = "DriverRefused"  # the driver answers the hand-over with an error
    RUNNING = "Running"
    CANCELING = "Canceling"

    # Statement: ends
    FINISHED = "Finished"
    CANCELED_BY_USER = "CanceledByUser"
    SESSION_CLOSED = "SessionClosed"
    SQL_ERROR = "SqlError"
    SESSION_LOST = "SessionLost"  # the outcome is unknown
    DEPENDENCY_FAILED = "DependencyFailed"
    DEPENDENCY_CYCLE = "DependencyCycle"
    RESULT_TOO_LARGE = "ResultTooLarge"
    QUEUE_TIMEOUT = "QueueTimeout"
    EXECUTION_TIMEOUT = "ExecutionTimeout"

    # Statement: streaming
    STOPPED_BY_USER = "StoppedByUser"
    STATE_INCOMPATIBLE = "StateIncompatible"
    CHECKPOINT_LOST = "CheckpointLost"
    SOURCE_LOST = "SourceLost"
    ENVIRONMENT_FAILED = "EnvironmentFailed"  # the driver or the storage failed, not the statement
    UPGRADING = "Upgrading"
    WAITING_FOR_SAVEPOINT = "WaitingForSavepoint"  # the one of startFrom
    TAKING_SAVEPOINT = "TakingSavepoint"  # before it stops
    RESTARTING = "Restarting"
    LAGGING = "Lagging"
    HEALTHY = "Healthy"
    NO_PROGRESS = "NoProgress"
    CHECKPOINT_FRESH = "CheckpointFresh"
    CHECKPOINT_STALE = "CheckpointStale"
    COMPATIBLE = "Compatible"
    UNCHANGED = "Unchanged"  # the query ran with this spec
    VALIDATING = "Validating"  # a driver validates the spec of a stopped query

    # Savepoint
    STATEMENT_NOT_FOUND = "StatementNotFound"
    STATEMENT_NOT_STREAMING = "StatementNotStreaming"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    SAVEPOINT_FAILED = "SavepointFailed"
    SAVEPOINT_TIMEOUT = "SavepointTimeout"
    ABANDONED = "Abandoned"
    LOCATION_INVALID = "LocationInvalid"

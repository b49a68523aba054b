"""What Java's exceptions mean, by their types and those of their causes. Pure.

A rule names a type and holds for its subtypes, as far as none of these has a rule of its own. Rules are those of types whose
meaning their owner has fixed: the JDK, Spark, Hadoop, Kafka, AWS, Iceberg, Delta, Hive. A type without a rule tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparksql.wire.failure.kind import Verdict, environment, statement, unknown

CONFINED = "dev.sparksql.files.ConfinedException"
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
STACK_OVERFLOW = "java.lang.StackOverflowError"
SPARK_EXCEPTION = "org.apache.spark.SparkException"
SERVICE_ANSWER = "software.amazon.awssdk.core.exception.SdkServiceException"
"""The exception of AWS' SDK that has the HTTP status of a service's answer: `statusCode()`."""

_REFUSED = environment("a service refused the access; its owner grants it")
_NETWORK = environment("the network or a service failed")
_ABSENT = unknown("what is missing may be made without a change of the statement")
_FORMAT = unknown("bytes that were read have another format; it depends on the rows")
_CONCURRENT = environment("a concurrent transaction won")
_REGION = statement("the bucket is in another region than the settings name")
_KAFKA = "org.apache.kafka.common"

RULES: dict[str, Verdict] = {
    # Spark
    "org.apache.spark.sql.AnalysisException": statement("Spark's analysis refuses the statement"),
    "org.apache.spark.sql.catalyst.analysis.NoSuchDatabaseException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NoSuchTableException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NoSuchViewException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NoSuchPartitionException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NoSuchPartitionsException": _ABSENT,
    "org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException": _ABSENT,
    "org.apache.spark.ExecutorDeadException": environment("an executor is gone"),
    "org.apache.spark.ShuffleStatusNotFoundException": environment("an executor is gone"),
    "org.apache.spark.shuffle.FetchFailedException": environment("an executor with shuffled rows is gone"),
    "org.apache.spark.network.client.ChunkFetchFailureException": environment("an executor with shuffled rows is gone"),
    "org.apache.spark.rpc.RpcEnvStoppedException": environment("the driver was shutting down"),
    "org.apache.spark.rpc.RpcEndpointNotFoundException": environment("an executor is gone"),
    "org.apache.spark.api.python.PythonWorkerException": environment("a Python process ended"),
    "org.apache.spark.TaskKilledException": unknown("a task was killed"),
    "org.apache.spark.TaskNotSerializableException": statement(
        "a function of the statement cannot be sent to executors"
    ),
    # The JDK
    OUT_OF_MEMORY: environment("there is less memory than the statement needs now"),
    STACK_OVERFLOW: statement("the statement is nested too deeply"),
    "java.lang.LinkageError": statement(
        "a class that the statement uses is not in the session's image, or of another version"
    ),
    "java.lang.ClassNotFoundException": statement("a class that the statement uses is not in the session's image"),
    "java.io.InterruptedIOException": _NETWORK,  # with java.net.SocketTimeoutException
    "java.net.SocketException": _NETWORK,
    "java.net.UnknownHostException": _NETWORK,
    "java.net.http.HttpTimeoutException": _NETWORK,
    "javax.net.ssl.SSLException": _NETWORK,
    "java.nio.channels.ClosedChannelException": _NETWORK,
    "java.util.concurrent.TimeoutException": _NETWORK,
    "java.nio.file.FileSystemException": environment("the storage failed"),
    "java.nio.file.AccessDeniedException": _REFUSED,
    "java.nio.file.NoSuchFileException": _ABSENT,
    "java.nio.file.FileAlreadyExistsException": _ABSENT,
    "java.nio.file.NotDirectoryException": _ABSENT,
    "java.io.FileNotFoundException": _ABSENT,
    "java.net.MalformedURLException": statement("a URL in the statement is malformed"),
    "java.nio.charset.CharacterCodingException": _FORMAT,
    "java.sql.SQLTransientException": _NETWORK,
    "java.sql.SQLRecoverableException": _NETWORK,
    "java.sql.SQLNonTransientConnectionException": _NETWORK,
    "java.sql.SQLSyntaxErrorException": statement("the database refuses the text that it was sent"),
    "java.sql.SQLDataException": _FORMAT,
    "java.sql.SQLIntegrityConstraintViolationException": _FORMAT,
    # Hadoop
    CONFINED: statement("the statement names a local place that SQL may not use"),
    "org.apache.hadoop.security.AccessControlException": _REFUSED,
    "org.apache.hadoop.ipc.RemoteException": environment("the file system's server answered with an error"),
    "org.apache.hadoop.ipc.RpcException": _NETWORK,
    "org.apache.hadoop.fs.PathIOException": environment("the storage failed"),
    "org.apache.hadoop.fs.PathNotFoundException": _ABSENT,
    "org.apache.hadoop.fs.PathAccessDeniedException": _REFUSED,
    "org.apache.hadoop.fs.PathPermissionException": _REFUSED,
    "org.apache.hadoop.fs.FileAlreadyExistsException": _ABSENT,
    "org.apache.hadoop.fs.UnsupportedFileSystemException": statement("the session has no file system of that name"),
    "org.apache.hadoop.fs.ChecksumException": unknown("a file is damaged"),
    "org.apache.hadoop.fs.s3a.AWSClientIOException": environment("the object store, or the way to it, failed"),
    "org.apache.hadoop.fs.s3a.AWSBadRequestException": unknown("the object store does not understand the request"),
    "org.apache.hadoop.fs.s3a.AWSRedirectException": _REGION,
    "org.apache.hadoop.fs.s3a.UnknownStoreException": _ABSENT,
    "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException": _REFUSED,
    "org.apache.hadoop.fs.s3a.NoVersionAttributeException": unknown("a file was changed meanwhile"),
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException": environment("a file was changed meanwhile"),
    # AWS: a service's answer is judged by its status, see `verdict_of_status`
    "software.amazon.awssdk.core.exception.SdkClientException": environment(
        "the object store, or the way to it, failed"
    ),
    # Kafka: https://kafka.apache.org/documentation, package org.apache.kafka.common.errors
    f"{_KAFKA}.errors.RetriableException": environment("Kafka marks the exception as one that passes"),
    f"{_KAFKA}.errors.AuthorizationException": _REFUSED,
    f"{_KAFKA}.errors.AuthenticationException": _REFUSED,
    f"{_KAFKA}.errors.ProducerFencedException": environment("another producer has taken over"),
    f"{_KAFKA}.errors.InvalidProducerEpochException": environment("another producer has taken over"),
    f"{_KAFKA}.errors.OutOfOrderSequenceException": environment("records of the producer were lost or came twice"),
    f"{_KAFKA}.errors.BrokerNotAvailableException": _NETWORK,
    f"{_KAFKA}.errors.UnknownServerException": environment("a broker failed"),
    f"{_KAFKA}.errors.TransactionAbortableException": environment("the transaction was aborted"),
    f"{_KAFKA}.errors.TransactionAbortedException": environment("the transaction was aborted"),
    f"{_KAFKA}.errors.RebalanceInProgressException": environment("the consumer group is being divided anew"),
    f"{_KAFKA}.errors.InvalidTopicException": statement("the statement names a topic whose name Kafka does not take"),
    f"{_KAFKA}.errors.UnsupportedVersionException": statement("the brokers do not have what the statement uses"),
    f"{_KAFKA}.config.ConfigException": statement("an option of the source or sink is wrong"),
    f"{_KAFKA}.errors.SerializationException": _FORMAT,
    f"{_KAFKA}.errors.RecordTooLargeException": _FORMAT,
    f"{_KAFKA}.errors.RecordBatchTooLargeException": _FORMAT,
    f"{_KAFKA}.errors.InvalidTimestampException": _FORMAT,
    f"{_KAFKA}.InvalidRecordException": _FORMAT,
    f"{_KAFKA}.errors.InvalidConfigurationException": statement("an option of the source or sink is wrong"),
    f"{_KAFKA}.errors.InvalidRequiredAcksException": statement("an option of the source or sink is wrong"),
    f"{_KAFKA}.errors.InvalidTxnTimeoutException": statement("an option of the source or sink is wrong"),
    f"{_KAFKA}.errors.InvalidFetchSizeException": statement("an option of the source or sink is wrong"),
    f"{_KAFKA}.errors.UnsupportedCompressionTypeException": statement(
        "the brokers do not have what the statement uses"
    ),
    f"{_KAFKA}.errors.UnsupportedForMessageFormatException": statement(
        "the brokers do not have what the statement uses"
    ),
    f"{_KAFKA}.errors.DelegationTokenExpiredException": _REFUSED,
    f"{_KAFKA}.errors.DelegationTokenNotFoundException": _REFUSED,
    f"{_KAFKA}.errors.DelegationTokenDisabledException": _REFUSED,
    f"{_KAFKA}.errors.DelegationTokenOwnerMismatchException": _REFUSED,
    f"{_KAFKA}.errors.SecurityDisabledException": _REFUSED,
    f"{_KAFKA}.errors.ControllerMovedException": _NETWORK,
    f"{_KAFKA}.errors.UnknownControllerIdException": _NETWORK,
    f"{_KAFKA}.errors.TransactionCoordinatorFencedException": environment("another broker has taken over"),
    f"{_KAFKA}.errors.InvalidPidMappingException": environment("the brokers have forgotten the producer"),
    "org.apache.kafka.clients.consumer.InvalidOffsetException": unknown("records at the offset are gone"),
    # Catalogs and table formats
    "org.apache.thrift.transport.TTransportException": environment("the metastore, or the way to it, failed"),
    "org.apache.iceberg.exceptions.CommitFailedException": _CONCURRENT,
    "org.apache.iceberg.exceptions.CommitStateUnknownException": environment("the catalog did not confirm a commit"),
    "org.apache.iceberg.exceptions.ServiceUnavailableException": _NETWORK,
    "org.apache.iceberg.exceptions.ServiceFailureException": _NETWORK,
    "org.apache.iceberg.exceptions.NotAuthorizedException": _REFUSED,
    "org.apache.iceberg.exceptions.ForbiddenException": _REFUSED,
    "org.apache.iceberg.exceptions.NoSuchTableException": _ABSENT,
    "org.apache.iceberg.exceptions.NoSuchNamespaceException": _ABSENT,
    "org.apache.iceberg.exceptions.NotFoundException": _ABSENT,
    "org.apache.spark.sql.delta.DeltaConcurrentModificationException": _CONCURRENT,
}
"""Verdict by type. Those of the whole libraries are in tests/gateway/failure_types.csv."""

EXACT_RULES: dict[str, Verdict] = {
    # A subtype tells of a format: those of Jackson, Protobuf, Avro and the JDK's parsers derive from it as well.
    "java.io.IOException": environment("the storage or the network failed"),
}
"""Verdict of a type itself, which tells nothing of its subtypes."""


@dataclass(frozen=True)
class Thrown:
    """Describes one throwable: its type, then its supertypes from the nearest on, and the status of a service's answer."""

    types: tuple[str, ...]
    status: int | None = None


def verdict_of_causes(chain: Sequence[Thrown]) -> Verdict | None:
    """Returns what the types of an exception and its causes tell; `chain` begins with the outermost.

    The innermost cause that has a rule decides: what is around it only passes it on.
    """
    return next((found for found in map(verdict_of, reversed(chain)) if found is not None), None)


def verdict_of(thrown: Thrown) -> Verdict | None:
    """Returns what the types of one throwable tell, None if there is no rule for them."""
    if SERVICE_ANSWER in thrown.types:
        return verdict_of_status(thrown.status)
    return _nearest(thrown.types) or EXACT_RULES.get(thrown.types[0])


def _nearest(types: Iterable[str]) -> Verdict | None:
    return next((RULES[name] for name in types if name in RULES), None)


def verdict_of_status(status: int | None) -> Verdict:
    """Returns what the HTTP status of an object store's answer tells; None stands for no status."""
    match status:
        case None | 408 | 409 | 412 | 429:
            return environment("the object store asks to try again, or a concurrent write won")
        case 401 | 403:
            return _REFUSED
        case 404 | 410:
            return _ABSENT
        case 301 | 307:
            return _REGION
        case _ if status >= 500:
            return environment("the object store failed")
        case _:
            return unknown("the object store does not understand the request")

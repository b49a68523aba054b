"""The tables of what failures mean, as CSV: each condition of Spark, each exception of the clients that a session has.

A changed class shows as a difference of these files. `python -m tests.support.failure_tables` writes them anew.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path

import pyspark

from sparksql.wire.control import OperationError
from sparksql.wire.failure.classify import classify
from sparksql.wire.failure.kind import FailureKind, Verdict
from sparksql.wire.failure.throwables import Thrown, verdict_of, verdict_of_status
from tests.support.class_files import supertypes

REPOSITORY = Path(__file__).parents[2]
CONDITIONS = REPOSITORY / "tests/unit/wire/failure/spark_conditions.csv"
ANSWERS = REPOSITORY / "tests/unit/wire/failure/object_store_answers.csv"
TYPES = REPOSITORY / "tests/gateway/failure_types.csv"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_CAUSES = (None, FailureKind.STATEMENT, FailureKind.ENVIRONMENT)
# Why a type without a rule is unknown: a few attempts are made, then the statement is parked or ends.
_WITHOUT_A_RULE = {
    "Spark": "its condition decides, or else its cause",
    "Hadoop": "its cause decides, or it is of a file system or a command that a session does not use",
    "Kafka": "its cause decides, or it answers brokers, administrators or consumer groups, and Spark reads without a group",
    "AWS": "its cause decides, or it is of a service that a session does not use",
    "Iceberg": "a commit, a file or the catalog's answer is not what was expected; the table's owner knows more",
    "Delta": "its condition decides, or else its cause",
    "PostgreSQL": "its SQLSTATE decides",
}

# Of whose clients each exception is listed: what storage, Kafka, catalogs and table formats can throw at a statement.
OWNERS = (
    ("Spark", "org.apache.spark."),
    ("Hadoop", "org.apache.hadoop.fs."),
    ("Hadoop", "org.apache.hadoop.ipc."),
    ("Hadoop", "org.apache.hadoop.net."),
    ("Hadoop", "org.apache.hadoop.security."),
    ("Kafka", "org.apache.kafka."),
    ("AWS", "software.amazon.awssdk."),
    ("Iceberg", "org.apache.iceberg."),
    ("Delta", "io.delta."),
    ("PostgreSQL", "org.postgresql."),
)
_SHADED = (".shaded.", ".relocated.", ".thirdparty.", ".connect.")

# The codes that S3 answers with, and their statuses: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; with
# those of the object store of the tests, whose sources `tests/integration/test_reasons_of_components.py` compares.
S3_CODES: dict[HTTPStatus, tuple[str, ...]] = {
    HTTPStatus.MOVED_PERMANENTLY: ("PermanentRedirect", "WebsiteRedirect"),
    HTTPStatus.NOT_MODIFIED: ("NotModified",),
    HTTPStatus.TEMPORARY_REDIRECT: ("Redirect", "TemporaryRedirect"),
    HTTPStatus.BAD_REQUEST: (
        "AccessControlListNotSupported", "AmbiguousGrantByEmailAddress", "AuthorizationHeaderMalformed",
        "AuthorizationQueryParametersError", "BadDigest", "BadRequest", "CredentialsNotSupported",
        "DirectoryObjectContainsData", "EntityTooLarge", "EntityTooSmall", "ErrDirectoryNotEmpty", "ExpiredToken",
        "IllegalLocationConstraintException", "IncompleteBody", "IncorrectNumberOfFilesInPostRequest", "InlineDataTooLarge",
        "InvalidAccessPoint", "InvalidAccessPointAliasError", "InvalidArgument", "InvalidBucketAclWithObjectOwnership",
        "InvalidBucketName", "InvalidBucketState", "InvalidChunkSizeError", "InvalidDigest",
        "InvalidEncryptionAlgorithmError", "InvalidHostHeader", "InvalidHttpMethod", "InvalidLocationConstraint",
        "InvalidPart", "InvalidPartOrder", "InvalidPolicyDocument", "InvalidRedirectLocation", "InvalidRequest",
        "InvalidSOAPRequest", "InvalidSessionException", "InvalidSignature", "InvalidStorageClass", "InvalidTag",
        "InvalidTargetBucketForLogging", "InvalidToken", "InvalidURI", "KeyTooLongError", "MalformedACLError",
        "MalformedPOSTRequest", "MalformedTrailerError", "MalformedXML", "MaxMessageLengthExceeded",
        "MaxPostPreDataLengthExceededError", "MetadataTooLarge", "MissingAttachment", "MissingAuthenticationToken",
        "MissingRequestBodyError", "MissingSecurityElement", "NoLoggingStatusForKey", "NoSuchObjectLockConfiguration",
        "RequestHeaderSectionTooLarge", "RequestIsNotMultiPartContent", "RequestTimeout", "TokenCodeInvalidError",
        "TokenRefreshRequired", "TooManyBuckets", "UnexpectedContent", "UnresolvableGrantByEmailAddress",
        "UnsupportedArgument", "UnsupportedSignature", "UserKeyMustBeSpecified", "XAmzContentSHA256Mismatch",
    ),
    HTTPStatus.UNAUTHORIZED: ("Unauthorized",),
    HTTPStatus.FORBIDDEN: (
        "AccessDenied", "AccessForbidden", "AccountProblem", "AllAccessDisabled", "CrossLocationLoggingProhibited",
        "InvalidAccessKeyId", "InvalidObjectState", "InvalidPayer", "InvalidSecurity", "NotSignedUp", "QuotaExceeded",
        "RequestTimeTooSkewed", "SignatureDoesNotMatch", "UnauthorizedAccess", "UnauthorizedAccessError",
    ),
    HTTPStatus.NOT_FOUND: (
        "MissingSecurityHeader", "NoSuchAccessPoint", "NoSuchAsyncRequest", "NoSuchBucket", "NoSuchBucketPolicy",
        "NoSuchCORSConfiguration", "NoSuchKey", "NoSuchLifecycleConfiguration", "NoSuchMultiRegionAccessPoint",
        "NoSuchTagSet", "NoSuchUpload", "NoSuchVersion", "NoSuchWebsiteConfiguration",
        "ObjectLockConfigurationNotFoundError", "OwnershipControlsNotFoundError", "ReplicationConfigurationNotFoundError",
        "ServerSideEncryptionConfigurationNotFoundError",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: ("MethodNotAllowed",),
    HTTPStatus.REQUEST_TIMEOUT: ("RequestTimeout",),
    HTTPStatus.CONFLICT: (
        "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty", "ClientTokenConflict",
        "ConditionalRequestConflict", "ExistingObjectIsDirectory", "InvalidBucketOwnerAWSAccountID", "InvalidBucketState",
        "ObjectParentIsFile", "OperationAborted", "RestoreAlreadyInProgress",
    ),
    HTTPStatus.GONE: ("Gone",),
    HTTPStatus.LENGTH_REQUIRED: ("MissingContentLength",),
    HTTPStatus.PRECONDITION_FAILED: ("PreconditionFailed",),
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: ("InvalidPartNumber", "InvalidRange"),
    HTTPStatus.TOO_MANY_REQUESTS: ("TooManyRequests",),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("InternalError",),
    HTTPStatus.NOT_IMPLEMENTED: ("NotImplemented", "VersioningNotConfigured"),
    HTTPStatus.BAD_GATEWAY: ("BadGateway",),
    HTTPStatus.SERVICE_UNAVAILABLE: ("Busy", "ServiceUnavailable", "SlowDown"),
    HTTPStatus.GATEWAY_TIMEOUT: ("GatewayTimeout",),
    HTTPStatus.INSUFFICIENT_STORAGE: ("InsufficientStorage",),
}  # fmt: skip


def conditions() -> str:
    """Spark's own list: what a condition means, and what it means if analysis throws it, or with a cause in the environment."""
    rows = []
    for name, state in _spark_conditions():
        errors = [OperationError(condition=name, sql_state=state or None, cause=cause) for cause in _CAUSES]
        verdicts = [classify(error) for error in errors]
        rows.append((name, state, *(verdict.kind for verdict in verdicts), verdicts[0].why))
    return _table(("condition", "sql_state", "class", "by_analysis", "by_environment", "why"), rows)


def _spark_conditions() -> Iterator[tuple[str, str]]:
    (jar,) = SPARK_JARS.glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        known = json.loads(archive.read("error/error-conditions.json"))
    for name, described in sorted(known.items()):
        yield name, described.get("sqlState", "")


def kafka_conditions(jars: Iterable[Path]) -> set[str]:
    """The conditions of Spark's Kafka source, from its jar."""
    (jar,) = (jar for jar in jars if jar.name.startswith("spark-sql-kafka-"))
    with zipfile.ZipFile(jar) as archive:
        return set(json.loads(archive.read("error/kafka-error-conditions.json")))


def answers() -> str:
    """What an object store can answer: each code of S3 by its status."""
    rows = (
        (code, int(status), verdict.kind, verdict.why)
        for status, codes in S3_CODES.items()
        for verdict in (verdict_of_status(status),)
        for code in codes
    )
    return _table(("code", "status", "class", "why"), rows)


def types(connectors: Iterable[Path]) -> str:
    """What the clients of a session can throw: each exception that can be made, by its type."""
    known = supertypes([*SPARK_JARS.glob("*.jar"), *connectors])
    rows = []
    for owner, package in OWNERS:
        for name in sorted(
            each for each in known if each.startswith(package) and not any(part in each for part in _SHADED)
        ):
            verdict = verdict_of(Thrown(known[name])) or Verdict(FailureKind.UNKNOWN, _WITHOUT_A_RULE[owner])
            rows.append((owner, name, verdict.kind, verdict.why))
    return _table(("owner", "type", "class", "why"), rows)


def known_supertypes(connectors: Iterable[Path]) -> set[str]:
    """The types that the listed exceptions have, their own and all others."""
    return {name for chain in supertypes([*SPARK_JARS.glob("*.jar"), *connectors]).values() for name in chain}


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def main() -> None:
    """Writes the tables."""
    from tests.support.default_class import image_connectors

    CONDITIONS.write_text(conditions())
    ANSWERS.write_text(answers())
    TYPES.write_text(types(map(Path, image_connectors())))


if __name__ == "__main__":
    main()

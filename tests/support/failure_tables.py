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
_NO_RULE = Verdict(FailureKind.UNKNOWN, "no rule")

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

# The codes that S3 answers with, and their statuses: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
S3_CODES: dict[HTTPStatus, tuple[str, ...]] = {
    HTTPStatus.MOVED_PERMANENTLY: ("PermanentRedirect",),
    HTTPStatus.TEMPORARY_REDIRECT: ("Redirect", "TemporaryRedirect"),
    HTTPStatus.BAD_REQUEST: (
        "AuthorizationHeaderMalformed", "BadDigest", "EntityTooLarge", "EntityTooSmall", "ExpiredToken", "IllegalLocationConstraintException",
        "IncompleteBody", "InvalidArgument", "InvalidBucketName", "InvalidDigest", "InvalidPart", "InvalidPartOrder", "InvalidRequest",
        "InvalidToken", "InvalidURI", "KeyTooLongError", "MalformedXML", "RequestTimeout", "TokenRefreshRequired", "TooManyBuckets",
    ),
    HTTPStatus.UNAUTHORIZED: ("Unauthorized",),
    HTTPStatus.FORBIDDEN: (
        "AccessDenied", "AccountProblem", "AllAccessDisabled", "InvalidAccessKeyId", "InvalidObjectState", "InvalidPayer", "NotSignedUp",
        "RequestTimeTooSkewed", "SignatureDoesNotMatch",
    ),
    HTTPStatus.NOT_FOUND: ("NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NoSuchVersion"),
    HTTPStatus.METHOD_NOT_ALLOWED: ("MethodNotAllowed",),
    HTTPStatus.REQUEST_TIMEOUT: ("RequestTimeout",),
    HTTPStatus.CONFLICT: ("BucketNotEmpty", "ConditionalRequestConflict", "OperationAborted", "RestoreAlreadyInProgress"),
    HTTPStatus.GONE: ("Gone",),
    HTTPStatus.LENGTH_REQUIRED: ("MissingContentLength",),
    HTTPStatus.PRECONDITION_FAILED: ("PreconditionFailed",),
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: ("InvalidRange",),
    HTTPStatus.TOO_MANY_REQUESTS: ("TooManyRequests",),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("InternalError",),
    HTTPStatus.NOT_IMPLEMENTED: ("NotImplemented",),
    HTTPStatus.BAD_GATEWAY: ("BadGateway",),
    HTTPStatus.SERVICE_UNAVAILABLE: ("ServiceUnavailable", "SlowDown"),
    HTTPStatus.GATEWAY_TIMEOUT: ("GatewayTimeout",),
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
            verdict = verdict_of(Thrown(known[name])) or _NO_RULE
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

"""What Spark's conditions and the SQLSTATEs mean. Pure.

A condition has a rule of its own only where its SQLSTATE tells less, and a SQLSTATE where its class (its first two
characters) tells less. The meanings are those of Spark's error-states.json. `classify` has the order of the rules.
"""

from __future__ import annotations

from sparksql.wire.failure.kind import Verdict, environment, statement, unknown

_LOG = unknown("a log of the checkpoint is damaged, or of another version")
_STATE = statement("the state in the checkpoint does not fit the statement")
_ROWS = unknown("it depends on the rows")
_OTHERS = unknown("what is missing or in the way may be made or taken away without a change of the statement")
_CHANGED = unknown("an object was changed meanwhile; another attempt reads its new definition")
_SYNTAX = statement("syntax, names, types or rights of the statement")
_MEMORY = environment("there is less memory than the statement needs now")
KAFKA_DATA_LOSS = "KAFKA_DATA_LOSS"
HEAP_EXHAUSTED = "JAVA_HEAP_EXHAUSTED"  # ours: Spark has no condition for java.lang.OutOfMemoryError

_CONDITIONS = {
    KAFKA_DATA_LOSS: statement("records that the query has not read are gone; going on without them is a decision"),
    HEAP_EXHAUSTED: _MEMORY,
    "CONCURRENT_QUERY": environment("the same query still runs elsewhere"),
    "TASK_WRITE_FAILED": unknown("it names no reason, which is the cause's"),
    "FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY": unknown(
        "the data source could not be opened, or the query on it is wrong"
    ),
    "INVALID_BUCKET_FILE": unknown("a file in the folder of a table is not one of its own"),
    "FAILED_RENAME_PATH": environment("the storage did not rename a file"),
    "MALFORMED_CSV_RECORD": _ROWS,
    "EXCEED_LIMIT_LENGTH": _ROWS,
    "COLLECTION_SIZE_LIMIT_EXCEEDED": _ROWS,
    "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND": environment("an executor that held a checkpointed block is gone"),
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": _STATE,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": _STATE,
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION": _STATE,
    "STATE_STORE_UNSUPPORTED_OPERATION": _STATE,
    "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY": _STATE,
    "TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE": _STATE,
    "PIPELINE_RUN_FAILED": unknown("the cause is in the events of the pipeline"),
    "KAFKA_NULL_TOPIC_IN_DATA": _ROWS,
    "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED": statement(
        "options of the source name other partitions than the topic has"
    ),
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED": statement(
        "options of the source name other partitions than the topic has"
    ),
    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": statement("options of the source contradict one another"),
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": unknown(
        "options of the source do not fit the records in the topic"
    ),
}
"""Conditions of Spark and of its Kafka source that tell more than their SQLSTATE."""

_STATES = {
    "21S01": statement("the number of columns does not fit the target"),
    "42P01": _OTHERS,  # undefined table or view
    "42704": _OTHERS,  # undefined object: schema, constraint, index
    "42883": _OTHERS,  # undefined routine
    "42K03": _OTHERS,  # file not found
    "42K04": _OTHERS,  # duplicate file
    "42P06": _OTHERS,  # duplicate schema
    "42P07": _OTHERS,  # duplicate table
    "2BP01": _OTHERS,  # dependent objects still exist
    "51024": _CHANGED,
    "54000": unknown("a limit that depends on the rows, or on the statement"),
    "54006": unknown("a limit that depends on the rows, or on the settings"),
    "56038": statement("the feature is not there in this session"),
    "58030": environment("reading or writing failed"),
    "HY008": unknown("it was canceled from outside"),
    "KD000": statement("values of the statement do not fit the types of the data source"),
    "KD001": unknown("a file cannot be read: it is damaged, or its storage failed"),
    "KD002": _LOG,
    "KD005": statement("a table needs a column that is no partition"),
    "KD006": _LOG,
    "KD009": unknown("folders of a table contradict one another"),
    "KD00B": unknown("a file cannot be read: its schema is not known"),
}

_CLASSES = {
    "07": statement("the dynamic statement and its parameters do not fit"),
    "08": environment("a connection failed"),
    "0A": statement("Spark does not have the feature"),
    "21": _ROWS,
    "22": _ROWS,
    "23": _ROWS,
    "25": environment("the database was in a state that lets no transaction write"),
    "28": environment("the database refused the user; its owner grants it"),
    "38": unknown("code of a function or of a data source failed"),
    "39": unknown("code of a function or of a data source failed"),
    "3F": statement("the statement names no schema"),
    "40": environment("a concurrent transaction won"),
    "42": _SYNTAX,
    "46": statement("names of Java classes or fields in the statement"),
    "53": environment("resources of the environment are used up"),
    "54": statement("the statement is larger or deeper than a fixed limit"),
    "55": environment("an object was in use by others"),
    "57": environment("an operator of the service intervened"),
    "58": environment("an error outside of the statement: a disk, a file system, a system call"),
    "82": _MEMORY,
    "F0": statement("settings of the session are wrong"),
    "HV": unknown("an external data source failed"),
    "HY": unknown("the call was canceled, or its session is gone"),
    "KD": unknown("an external data source failed"),
    "P0": _ROWS,
    "XX": unknown("an internal error"),
}


def verdict_of_condition(condition: str | None) -> Verdict | None:
    """Returns what a condition tells that its SQLSTATE does not, None if it has no rule of its own.

    A condition with a sub-condition, as KAFKA_DATA_LOSS.PARTITIONS_DELETED, is judged by its main part.
    """
    return _CONDITIONS.get(main_condition(condition))


def verdict_of_state(sql_state: str | None) -> Verdict | None:
    """Returns what a SQLSTATE tells that its class does not, None if it has no rule of its own."""
    return _STATES.get(sql_state or "")


def verdict_of_class(sql_state: str | None) -> Verdict | None:
    """Returns what the class of a SQLSTATE tells, None for a class that is not known."""
    return _CLASSES.get((sql_state or "")[:2])


def main_condition(condition: str | None) -> str:
    """Returns a condition without its sub-condition, empty for none."""
    return (condition or "").partition(".")[0]

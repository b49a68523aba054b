"""Why statements differ from Spark's golden files, and the rules that tell it from a difference. Pure.

A rule looks at what was expected, at what came, and at what came before in the same file. The first that fits counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.sqlsuite.comparing import Difference, Kind
from tests.support.reasons import UNEXPLAINED, Cause, Reason

REASONS: Mapping[str, Reason] = {
    "transform": Reason(Cause.POLICY, "TRANSFORM ... USING runs a command, and is refused."),
    "conf-keys": Reason(Cause.POLICY, "SET takes the keys that the class allows, of those that were reviewed."),
    "parser-conf": Reason(
        Cause.POLICY,
        "A text that has been read does not change how texts are read: a script, a block, a manifest, or a session of Connect.",
    ),
    "substitution": Reason(Cause.POLICY, "`${name}` in a text stays as it is."),
    "local-files": Reason(
        Cause.POLICY, "A path of the driver's own files is refused, whether there is such a file or not."
    ),
    "reflection": Reason(Cause.POLICY, "Functions that call any method of Java are not in the session's registry."),
    "literal-texts": Reason(
        Cause.POLICY, "The text of EXECUTE IMMEDIATE must be a literal, so that it can be checked."
    ),
    "write-counts": Reason(
        Cause.POLICY, "A statement that writes answers with what Spark counts of it: rows, bytes, files."
    ),
    "metastore": Reason(
        Cause.CATALOG,
        "The tables are in Hive's metastore, which keeps and shows more of them (owner, SerDe, statistics, properties) and"
        " names its own failures; the suite's are in memory.",
    ),
    "iceberg-catalog": Reason(
        Cause.CATALOG,
        "The default class's `spark_catalog` is Iceberg's: plans name it, databases have no collation of their own, and of a function"
        " in a schema that is not there the schema is reported.",
    ),
    "suite-classes": Reason(Cause.SUITE, "A data source or a function that is a class of the suite."),
    "suite-functions": Reason(Cause.SUITE, "A function that the suite registers in Scala or Python."),
    "suite-tables": Reason(Cause.SUITE, "The tables of TPC-DS, which the suite makes in Scala."),
    "suite-session": Reason(
        Cause.SUITE,
        "The suite's session: user `test_user`, the class that it runs in, no Avro or Protobuf, modes of code generation that"
        " nobody may set, rules that it leaves out.",
    ),
    "connect-intervals": Reason(
        Cause.SPARK,
        "Arrow counts an interval's time in nanoseconds, and Spark Connect fails for more of them than a long has.",
    ),
    "follows": Reason(Cause.SUITE, "An earlier statement of the file, which differs, has not made what this one uses."),
}

# Files that are about one thing: what no rule tells is of it.
OF_FILES: Mapping[str, str] = {
    "describe-part-after-analyze.sql": "metastore",
    "transform.sql": "transform",
    "udaf/": "suite-functions",
    "udtf/": "suite-functions",
    "udf/postgreSQL/udf-aggregates_part1.sql": "suite-functions",  # what stands for `udf` makes other decimals
    "udf/udf-special-values.sql": "suite-functions",  # and here
}


@dataclass(frozen=True)
class Context:
    """A difference with its file, and the differences before it there."""

    file: str
    it: Difference
    before: Sequence[Difference]


def explained(file: str, differences: Sequence[Difference]) -> list[str]:
    """Returns the reasons of a file's differences; `unexplained` for those that no rule tells."""
    return [_explained(Context(file, each, differences[:index])) for index, each in enumerate(differences)]


def _explained(context: Context) -> str:
    for name, rule in _RULES:
        if rule(context):
            return name
    of_file = next((name for file, name in OF_FILES.items() if context.file.startswith(file)), UNEXPLAINED)
    refused = next((each for each in context.before if each.number == 0), None)  # a setting of the file
    return of_file if refused is None else _explained(Context(context.file, refused, ()))


Rule = Callable[[Context], bool]


def _says(*patterns: str) -> Rule:
    """What came says one of these."""
    found = re.compile("|".join(patterns))
    return lambda context: found.search(context.it.actual) is not None


def _is_asked(*patterns: str) -> Rule:
    """The statement has one of these."""
    found = re.compile("|".join(patterns), re.IGNORECASE)
    return lambda context: found.search(context.it.sql) is not None


def _both(first: Rule, second: Rule) -> Rule:
    return lambda context: first(context) and second(context)


def _was_expected(pattern: str) -> Rule:
    """The golden file says this."""
    return lambda context: re.match(pattern, context.it.expected) is not None


_MADE = re.compile(
    r"\b(?:TABLE|VIEW|FUNCTION|VARIABLE|SCHEMA|DATABASE|INTO|VAR)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
    r"(?:IDENTIFIER\s*\(.*?['\"]\w+['\"].*?\)|[\w.`]+)",
    re.IGNORECASE,
)


def _follows(context: Context) -> bool:
    """It names what an earlier statement should have made or changed, which failed."""
    failed = (each.sql for each in context.before if each.kind in (Kind.FAILED, Kind.CONDITION))
    made = {re.findall(r"\w+", found)[-1].lower() for sql in failed for found in _MADE.findall(sql)}
    return not made.isdisjoint(re.findall(r"\w+", context.it.sql.lower()))


_LAST_CHANGE = re.compile(r"TBLPROPERTIES \(\n  'transient_lastDdlTime' = '\d+'\)\n")
# What DESCRIBE shows of a table of Hive's metastore beside what it shows of one in memory.
_OF_METASTORE = (
    "Owner", "Serde Library", "InputFormat", "OutputFormat", "Statistics", "Table Properties", "Storage Properties",
    "Partition Provider", "Partition Parameters", "Provider",
)  # fmt: skip


def _shows_more_of_a_table(context: Context) -> bool:
    """DESCRIBE has all lines of the golden file, and others of the metastore's."""
    if context.it.kind is not Kind.ROWS:
        return False
    wanted, came = ([line.strip() for line in text.split("\n")] for text in (context.it.expected, context.it.actual))
    more = list(came)
    for line in wanted:
        if line not in more:
            return False
        more.remove(line)
    return bool(more) and all(line.startswith(_OF_METASTORE) for line in more)


def _tells_more_of_a_table(context: Context) -> bool:
    """DESCRIBE ... AS JSON has all keys of the golden file, and others of the metastore's."""
    try:
        wanted, came = (json.loads(text) for text in (context.it.expected, context.it.actual))
    except ValueError:
        return False
    if not isinstance(wanted, dict) or not isinstance(came, dict):
        return False
    return "table_name" in wanted and wanted.keys() < came.keys() and all(came[key] == wanted[key] for key in wanted)


def _shows_its_last_change(context: Context) -> bool:
    """SHOW CREATE TABLE has the text of the golden file, and the time at which the metastore was last changed."""
    if context.it.kind is not Kind.ROWS:
        return False
    return _LAST_CHANGE.sub("", context.it.actual) == context.it.expected


_RULES: Sequence[tuple[str, Rule]] = (
    ("transform", _says("TRANSFORM ... USING runs a command")),
    ("parser-conf", _says("changes how SQL is parsed", "set it in the session")),
    ("conf-keys", _says("is not among the keys that the session's class allows", "configuration key '.*' is")),
    ("local-files", _says("SQL may not use this local place")),
    ("substitution", _is_asked(r"\$\{")),
    ("reflection", _both(_is_asked(r"\b(try_)?reflect\b", r"\bjava_method\b"), _says("UNRESOLVED_ROUTINE", "not allowed"))),
    ("literal-texts", _says("EXECUTE IMMEDIATE.*literal")),
    ("suite-session", _was_expected("AVRO_NOT_LOADED|PROTOBUF_NOT_LOADED")),
    ("suite-classes", _says(r"CANNOT_LOAD_FUNCTION_CLASS.* class (test\.)?org\.apache\.spark")),
    ("suite-classes", _says("DATA_SOURCE_NOT_FOUND.*org.apache.spark.sql")),
    ("suite-tables", _says(r"TABLE_OR_VIEW_NOT_FOUND.*`(store_sales|store_returns|web_sales|date_dim)`")),
    ("write-counts", _says(r"^\(\('num_(output|inserted|updated|deleted)_")),
    ("iceberg-catalog", _says("SCHEMA_LEVEL_COLLATIONS", "iceberg.spark.SparkSessionCatalog@")),
    ("iceberg-catalog", _both(_was_expected("UNRESOLVED_ROUTINE"), _says("^SCHEMA_NOT_FOUND"))),
    ("metastore", _says("HiveException", "hive.ql.io", "InvalidOperationException", "MetaException")),
    ("metastore", _says("Hive metastore does not support")),
    ("metastore", _both(_is_asked(r"^DESC(RIBE)? (SCHEMA|DATABASE|NAMESPACE)\b"), _says(r"^Catalog Name\t"))),
    ("metastore", _shows_more_of_a_table),
    ("metastore", _tells_more_of_a_table),
    ("metastore", _shows_its_last_change),
    ("metastore", _both(_is_asked(r"^SHOW TBLPROPERTIES\b"), _says("transient_lastDdlTime"))),
    ("suite-session", _is_asked("SET TIME ZONE LOCAL")),
    ("connect-intervals", _says("IntervalMonthDayNanoWriter")),
    ("suite-functions", _says("FAILED_EXECUTE_UDF.*GenericUDFCoalesce")),
    ("follows", _follows),
)  # fmt: skip

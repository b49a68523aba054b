"""What SQL inside the driver may not ask for: foreign configuration keys, foreign code, shell commands, hidden SQL.

Rules work on Spark's parsed plan. Each statement of a script, of `init`, of a BEGIN..END block and of EXECUTE IMMEDIATE is
checked before the text runs, so the text of EXECUTE IMMEDIATE must be a literal (also inside a block): what only shows at run
time cannot be checked. reflect and java_method are not here: they are taken out of the session's function registry. Nor are
local files: Hadoop's file system itself knows which ones SQL may use (images/session/java).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from sparksql.api.conf_policy import field_of, is_allowed, is_denied, normalise, similar_key, wrong_value
from sparksql.api.gateway_settings import PREFIX
from sparksql.gateway.spark.plans import nodes
from sparksql.gateway.spark.scala import elements, fields, is_a, option, simple_name
from sparksql.gateway.spark.shapes import JvmSession, LogicalPlan
from sparksql.gateway.sql.errors import StatementError, refusal
from sparksql.wire.control import ErrorReason
from sparksql.wire.driver import SqlPolicy

# Hive's own classes that call any Java method or read any local file.
DENIED_FUNCTION_CLASSES = frozenset(
    f"org.apache.hadoop.hive.ql.udf.generic.{name}"
    for name in ("GenericUDFReflect", "GenericUDFReflect2", "GenericUDFInFile")
)
# Spark reads a place of code or files as a URI here and as a pattern there; one that has none of these is the same to all
# of them.
_AMBIGUOUS = re.compile(r"[*?#\[\]{}\\\x00-\x20\x7f]")
_MAX_ESCAPINGS = 4  # how often the escapes of a place may be escapes themselves
# How Spark reads literals and names. Without ANSI double quotes are those of literals.
_DOUBLE_QUOTES, _ANSI = "spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.ansi.enabled"
_READING_KEYS = (_DOUBLE_QUOTES, "spark.sql.parser.escapedStringLiterals")
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_PLAN, _BLOCK_NODE = f"{_PLANS}.LogicalPlan", f"{_PLANS}.CompoundPlanStatement"
_COMMAND = f"{_PLANS}.Command"


def not_allowed(message: str) -> StatementError:
    """Returns the error for what the class's policy forbids."""
    return refusal(ErrorReason.NOT_ALLOWED, message)


def check_key(key: str, policy: SqlPolicy, value: str | None = None) -> None:
    """Refuses a key that SET or RESET may not touch, and a value that is not for it.

    Raises StatementError naming the key as written.
    """
    if normalise(key) in {normalise(enforced) for enforced in policy.enforced_conf}:
        raise not_allowed(f"configuration key {key!r} is enforced by the session's class")
    if is_denied(key):
        instead = field_of(key)
        remedy = "" if instead is None else f": set {instead} of the session instead"
        raise not_allowed(f"configuration key {key!r} is never allowed{remedy}")
    if normalise(key).startswith(PREFIX):
        raise not_allowed(f"configuration key {key!r} is read when a driver starts: set it in the session's spec.conf")
    if not is_allowed(key, policy.conf_allow):
        similar = similar_key(key, policy.conf_allow)
        remedy = "" if similar is None else f": did you mean {similar!r}?"
        raise not_allowed(f"configuration key {key!r} is not among the keys that the session's class allows{remedy}")
    if value is not None and (fits := wrong_value(key, value)) is not None:
        raise not_allowed(f"configuration key {key!r} is {value[:200]!r}: it takes {fits}")


def check_reading_key(key: str) -> None:
    """Refuses a setting by which texts are read where one that was read before runs after it. Raises StatementError."""
    if _is_among(key, _READING_KEYS):
        raise _reading_changes(key)


def check_reading(plan: LogicalPlan, session: JvmSession) -> None:
    """Refuses a SET or RESET that changes how texts are read, see `check_reading_key`. Raises StatementError."""
    if simple_name(plan) not in ("SetCommand", "ResetCommand"):
        return
    conf = session.sessionState().conf()
    reading = (*_READING_KEYS, _ANSI) if _is_true(conf.getConfString(_DOUBLE_QUOTES)) else _READING_KEYS
    for key in _changed(plan, session, reading):
        if _is_among(key, reading):
            raise _reading_changes(key)


def _changed(plan: LogicalPlan, session: JvmSession, reading: Iterable[str]) -> Iterable[str]:
    """The keys of a SET or RESET; of one that resets all, those among `reading` that are not as the driver has started with."""
    match simple_name(plan):
        case "SetCommand" if (pair := option(plan.kv())) is not None and pair._2().isDefined():
            return (str(pair._1()),)
        case "ResetCommand" if (key := option(plan.config())) is not None:
            return (str(key),)
        case "SetCommand":
            return ()
        case _:
            conf, start = session.sessionState().conf(), session.sparkContext().conf()
            given = {key: str(conf.getConfString(key)) if conf.contains(key) else None for key in reading}
            return [key for key, value in given.items() if value != option(start.getOption(key))]


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def _is_among(key: str, keys: Iterable[str]) -> bool:
    return normalise(key) in map(normalise, keys)


def _reading_changes(key: str) -> StatementError:
    return not_allowed(
        f"configuration key {key!r} changes how SQL is parsed, and this statement is already parsed: SET it in a client's session by a statement "
        "of its own, make it a property of that session, or set it in the session's spec.conf"
    )


def session_conf(conf: Mapping[str, str], policy: SqlPolicy) -> dict[str, str]:
    """Returns the configuration that a session begins with, checked, without what the class enforces (it has that already).

    Raises StatementError.
    """
    enforced = {normalise(key) for key in policy.enforced_conf}
    own = {key: value for key, value in conf.items() if normalise(key) not in enforced}
    for key, value in own.items():
        check_key(key, policy, value)
    return own


def statement_conf(conf: Mapping[str, str], policy: SqlPolicy) -> dict[str, str]:
    """Returns the statement's own configuration, checked as a session's. It holds for a text that has been read.

    Raises StatementError.
    """
    own = session_conf(conf, policy)
    for key in own:
        check_reading_key(key)
    return own


def check_uri(uri: str, policy: SqlPolicy) -> None:
    """Refuses code and files from outside `jarPrefixes`. Raises StatementError."""
    if _is_ambiguous(uri):
        plain = "a plain path, without patterns, blanks, query, fragment, backslashes and '.' or '..'"
        raise not_allowed(f"{uri!r} must name one place by {plain}, also when its %-escapes are read")
    if not any(_is_below(uri, prefix) for prefix in policy.jar_prefixes if prefix):
        prefixes = ", ".join(policy.jar_prefixes) or "none"
        raise not_allowed(
            f"{uri!r} is not below any of the jar prefixes that the session's class allows ({prefixes}): put it below one of them, "
            "or have its place in allow.jarPrefixes of the class"
        )


def _is_ambiguous(uri: str) -> bool:
    """Whether a URI, or what its escapes stand for however often they are read, may be taken for another place."""
    for _ in range(_MAX_ESCAPINGS + 1):
        if _AMBIGUOUS.search(uri) or {".", ".."} & set(uri.split("/")):
            return True
        seen, uri = uri, unquote(uri)
        if uri == seen:
            return False
    return True


def _is_below(uri: str, prefix: str) -> bool:
    """By text, but for the host (bucket), which must be the same and not only begin alike."""
    try:
        return uri.startswith(prefix) and urlsplit(uri).netloc == urlsplit(prefix).netloc
    except ValueError:  # no URI
        return False


def check_plan(plan: LogicalPlan, policy: SqlPolicy) -> None:
    """Refuses a parsed statement that asks for what the policy does not give. Raises StatementError."""
    match simple_name(plan):
        case "SetCommand":
            pair = option(plan.kv())
            if pair is not None and pair._2().isDefined():  # without a value it shows settings, which Spark redacts
                check_key(str(pair._1()), policy, str(pair._2().get()))
        case "ResetCommand":
            key = option(plan.config())
            if key is not None:
                check_key(str(key), policy)
        case "AddJarsCommand" | "AddFilesCommand" | "AddArchivesCommand":
            for path in elements(plan.paths()):
                check_uri(str(path), policy)
        case "CreateFunction" | "CreateFunctionCommand":
            _check_function(plan, policy)
        case _:
            pass


def check_transform(plan: LogicalPlan, *, has_keyword: bool) -> None:
    """Refuses TRANSFORM, which runs a command. Without its keyword (or MAP, REDUCE) no plan has one. Raises StatementError."""
    if has_keyword and any(simple_name(node) == "ScriptTransformation" for node in _all_nodes(plan)):
        raise not_allowed("TRANSFORM ... USING runs a command and is not allowed: compute it with functions of SQL")


def _all_nodes(plan: LogicalPlan) -> Iterator[Any]:
    """Yields the nodes of a plan, and those of plans that a command keeps as a value and not as a child, as EXPLAIN does."""
    for node in nodes(plan):
        yield node
        if is_a(node, _COMMAND):
            for field in fields(node):
                if hasattr(field, "getClass") and is_a(field, _PLAN):
                    yield from _all_nodes(field)


def block_statements(block: Any) -> Iterable[Any]:
    """Yields the parsed plans of all statements in a BEGIN..END block, nested ones as well."""
    for field in fields(block):
        yield from _nested(field)


def function_body(plan: LogicalPlan) -> str:
    """Returns the query that a SQL function stands for."""
    query = option(plan.queryText())
    return str(query) if query is not None else f"SELECT {option(plan.exprText())}"


def _nested(value: Any) -> Iterable[Any]:
    """The plans within a part of a block, by what Spark's trees are made of: statements, collections and case classes."""
    if not hasattr(value, "getClass"):  # a string, number or None that py4j has converted
        return
    if simple_name(value) == "SingleStatement":
        yield value.parsedPlan()
    elif is_a(value, _PLAN) and not is_a(value, _BLOCK_NODE):
        yield value
    elif is_a(value, "scala.collection.Iterable"):
        for element in elements(value):
            yield from _nested(element)
    elif is_a(value, "scala.Product"):
        for field in fields(value):
            yield from _nested(field)


def _check_function(plan: LogicalPlan, policy: SqlPolicy) -> None:
    if str(plan.className()).strip() in DENIED_FUNCTION_CLASSES:
        raise not_allowed(f"function class {plan.className()} is not allowed")
    for resource in elements(plan.resources()):
        check_uri(str(resource.uri()), policy)

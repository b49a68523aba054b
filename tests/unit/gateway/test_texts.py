"""Pure parts that work on texts: masking, places, splitting, messages, configuration keys."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparksql.api.conf_policy import is_allowed, is_denied, normalise
from sparksql.gateway.sql.errors import (
    MAX_FRAGMENT_CHARS,
    MAX_MESSAGE_CHARS,
    StatementError,
    Thrown,
    bounded,
    clean_message,
    describe,
    masked,
    visible,
)
from sparksql.gateway.sql.masking import LINGER_SECONDS, MASK, MIN_LINE_CHARS, MIN_PART_CHARS, LogMask, Masker
from sparksql.gateway.sql.parameters import check_usage
from sparksql.gateway.sql.policy import check_key, check_uri, statement_conf
from sparksql.gateway.sql.script import Fragment, ScriptTooLongError, Section, Token, locate, offset_of, split
from sparksql.wire.control import ErrorReason, OperationError, Parameter, SubmitRequest
from sparksql.wire.driver import InitStatement, SqlPolicy

short_text = st.text(st.sampled_from("ab*'\\\n\"é"), max_size=8)


@given(secrets=st.lists(short_text, max_size=3), shown=st.text(st.sampled_from("ab*'\\\n\"éc"), max_size=30))
def test_no_masked_text_contains_a_secret(secrets: list[str], shown: str) -> None:
    masked = Masker(secrets).mask(shown)
    assert not any(secret in masked for secret in secrets if secret)


@given(secret=st.text(min_size=1, max_size=20), before=st.text(max_size=10), after=st.text(max_size=10))
def test_a_secret_is_masked_as_sql_and_json_print_it(secret: str, before: str, after: str) -> None:
    masker = Masker([secret])
    as_sql = secret.replace("\\", "\\\\").replace("'", "\\'")
    for shown in (secret, as_sql):
        assert secret not in masker.mask(before + shown + after)
    assert masker.mask_optional(None) is None


PEM = "-----BEGIN KEY-----\n" + "\n".join(c * 64 for c in "kLm9") + "\nab12\n}\n-----END KEY-----\n"


@given(
    secret=st.text(st.sampled_from("abc'\\\n*"), min_size=MIN_PART_CHARS, max_size=200) | st.just(PEM),
    data=st.data(),
    before=st.text(max_size=10),
    after=st.text(max_size=10),
)
def test_a_part_that_a_cut_leaves_is_masked(secret: str, data: st.DataObject, before: str, after: str) -> None:
    """Spark cuts a plan's filters at 100 characters, and what it prints may begin and end anywhere in a value."""
    start = data.draw(st.integers(0, len(secret) - MIN_PART_CHARS))
    part = secret[start : data.draw(st.integers(start + MIN_PART_CHARS, len(secret)))]
    masked = Masker([secret]).mask(before + part + after)
    parts = {secret[at : at + MIN_PART_CHARS] for at in range(len(secret) - MIN_PART_CHARS + 1)}
    assert not any(part in masked for part in parts)


def test_each_line_of_a_secret_is_masked_by_itself_unless_short() -> None:
    masker = Masker([PEM])
    for line in PEM.splitlines():
        shown = masker.mask(f"a line: {line};")
        assert shown == (f"a line: {line};" if len(line) < MIN_LINE_CHARS else "a line: ***;")


def test_a_secret_as_long_as_kubernetes_allows_is_masked_at_once() -> None:
    value = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789+/", k=1 << 20))
    masker = Masker([value])
    assert masker.mask(f"[CAST_INVALID_INPUT] The value '{value[:3900]}") == "[CAST_INVALID_INPUT] The value '***"
    assert masker.mask(f"...{value[-100:]}' cannot be cast") == "...***' cannot be cast"


def test_an_error_is_masked_before_it_is_cut() -> None:
    secret = "abcdefgh" + "x" * MAX_MESSAGE_CHARS
    filling = "-" * (MAX_MESSAGE_CHARS - 8)
    error = OperationError(message=filling + secret, fragment="-" * (MAX_FRAGMENT_CHARS - 8) + secret)
    shown = bounded(masked(error, Masker([secret])))
    assert shown.message == filling + MASK
    assert shown.fragment is not None and "abc" not in shown.fragment
    assert len(bounded(OperationError(message="m" * 5000, fragment="f" * 500)).message) == MAX_MESSAGE_CHARS


def test_a_text_without_secrets_stays_as_it_is() -> None:
    assert Masker([""]).mask("a text") == "a text"
    assert Masker(["secret"]).mask("a secret's text") == "a ***'s text"


def test_the_log_is_masked_while_a_statement_lives_and_a_little_longer() -> None:
    now = [0.0]
    log_mask = LogMask(lambda: now[0])
    log_mask.add("a", Masker(["pass"]))
    assert log_mask.mask(b"the pass\n") == b"the ***\n"
    log_mask.retire("a")
    log_mask.retire("never seen")
    assert log_mask.mask(b"the pass\n") == b"the ***\n"
    now[0] = LINGER_SECONDS
    assert log_mask.mask(b"the pass\n") == b"the pass\n"


@given(sql=st.text(st.sampled_from("ab\n é😀"), max_size=40), offset=st.integers(0, 40))
def test_line_and_position_of_an_offset_in_sql_lead_back_to_the_offset(sql: str, offset: int) -> None:
    assume(offset <= len(sql))
    line, position = locate(sql, offset)
    assert offset_of(sql, line, position - 1) == offset
    assert (line, position) >= (1, 1)


@given(statements=st.lists(st.sampled_from(["SELECT 1", "  SELECT\n2 ", "", "   "]), max_size=8))
def test_statements_of_a_split_script_stand_at_their_stated_offsets(statements: list[str]) -> None:
    sql = ";".join(statements)
    sections: list[Section] = []
    position = 0
    for statement in statements:
        stripped = statement.strip()
        start = position + len(statement) - len(statement.lstrip())
        position += len(statement)
        sections.append(Section(position, Token(start, stripped.split()[0]) if stripped else None))
        position += 1
    fragments = split(sql, sections, lambda _: True)
    assert [fragment.text for fragment in fragments] == [s.strip() for s in statements if s.strip()]
    assert all(sql[f.offset : f.offset + len(f.text)] == f.text for f in fragments)


def test_a_block_ends_where_the_parser_says_and_the_rest_goes_on() -> None:
    sql = "BEGIN a; CASE END; b; END; c"
    ends = [index for index, char in enumerate(sql) if char == ";"] + [len(sql)]
    words = [("BEGIN", ("A", "BEGIN")), ("CASE", ("END", "CASE")), ("B", ("B",)), ("END", ("END",)), ("C", ("C",))]
    starts = [0, *(end + 2 for end in ends[:-1])]
    sections = [
        Section(end, Token(start, first), tuple(Token(start, word) for word in last))
        for start, end, (first, last) in zip(starts, ends, words, strict=True)
    ]
    fragments = split(sql, sections, lambda candidate: candidate.endswith("b; END"))
    assert [fragment.text for fragment in fragments] == ["BEGIN a; CASE END; b; END", "c"]
    assert [fragment.text for fragment in split(sql, sections, lambda _: False)] == [sql]


def test_a_script_has_a_bound() -> None:
    sections = [Section(index * 2 + 1, Token(index * 2, "A")) for index in range(501)]
    with pytest.raises(ScriptTooLongError):
        split("a;" * 501, sections, lambda _: True)
    assert len(split("a;" * 500, sections[:500], lambda _: True)) == 500


ABORTED = Thrown("SparkException", "Job aborted due to stage failure", is_failure=True)
WRITE_FAILED = Thrown("SparkException", "[TASK_WRITE_FAILED]", "TASK_WRITE_FAILED", "58030", is_failure=True)
STREAM_FAILED = Thrown("StreamingQueryException", "[STREAM_FAILED]", "STREAM_FAILED", "XXKST", is_failure=True)
UNREADABLE = Thrown("SparkException", "[FAILED_READ_FILE]", "FAILED_READ_FILE", "KD001", is_failure=True)
MALFORMED = Thrown("SparkException", "[MALFORMED_RECORD]", "MALFORMED_RECORD", "22023", is_failure=True)
BAD_RECORD = Thrown("BadRecordException", "")
DIVISION = Thrown("SparkArithmeticException", "[DIVIDE_BY_ZERO]", "DIVIDE_BY_ZERO", "22012", (7, 10))
UPGRADE = Thrown("SparkUpgradeException", "[INCONSISTENT_BEHAVIOR]", "INCONSISTENT_BEHAVIOR", "42K0B")
PATTERN = Thrown("SparkIllegalArgumentException", "[INVALID_DATETIME_PATTERN]", "INVALID_DATETIME_PATTERN", "22007")


@pytest.mark.parametrize(
    ("chain", "condition"),
    [
        ([ABORTED, WRITE_FAILED, DIVISION, Thrown("RuntimeException", "something below")], "DIVIDE_BY_ZERO"),
        ([UPGRADE, PATTERN], "INCONSISTENT_BEHAVIOR"),
        ([STREAM_FAILED, ABORTED, WRITE_FAILED, UPGRADE, PATTERN], "INCONSISTENT_BEHAVIOR"),
        ([WRITE_FAILED, Thrown("IOException", "no space left")], "TASK_WRITE_FAILED"),
        ([STREAM_FAILED, ABORTED, Thrown("IOException", "no space left")], "STREAM_FAILED"),
        ([UNREADABLE, MALFORMED, BAD_RECORD, PATTERN], "MALFORMED_RECORD"),
        ([Thrown("ExecutionException", "DIVIDE_BY_ZERO"), DIVISION], "DIVIDE_BY_ZERO"),
    ],
)
def test_an_error_with_causes_has_the_outermost_condition_that_is_no_failed_execution(
    chain: list[Thrown], condition: str
) -> None:
    assert describe(chain, Fragment("SELECT 1/0", 0), "SELECT 1/0").condition == condition


def test_an_error_of_a_later_statement_has_its_place_in_the_whole_text() -> None:
    error = describe([ABORTED, WRITE_FAILED, DIVISION], Fragment("SELECT 1/0", 12), "SELECT 1;\n  SELECT 1/0")
    assert (error.sql_state, error.line, error.position, error.fragment) == ("22012", 2, 10, "1/0")


def test_without_a_condition_the_deepest_message_is_told() -> None:
    chain = [
        Thrown("Py4JJavaError", "Exception thrown in awaitResult"),
        Thrown("IOException", "no space left"),
        Thrown("X", ""),
    ]
    assert describe(chain, Fragment("SELECT 1", 0), "SELECT 1").message == "no space left"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\n[A] Bad. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nSELEC\n^^^", "[A] Bad. SQLSTATE: 42601"),
        ("[A] Bad. SQLSTATE: 42703; line 2 pos 2;\n'Project ['x]\n+- Relation", "[A] Bad. SQLSTATE: 42703"),
        (
            "[F] Failed. SQLSTATE: XXKST\n=== Streaming Query ===\nLogical Plan:\n'secret'",
            "[F] Failed. SQLSTATE: XXKST",
        ),
        ("Lost task\nDriver stacktrace:\n\tat x.Y", "Lost task"),
        ("java.lang.X: y\n\tat a.B(C.java:1)", "java.lang.X: y"),
    ],
)
def test_error_messages_are_shown_without_stack_and_plan(raw: str, shown: str) -> None:
    assert clean_message(raw) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at or near '\u00a0'", "at or near 'U+00A0'"),
        ("a\u200bb\ufeff\x00", "aU+200BbU+FEFFU+0000"),
        ("two lines\n\tof 漢字 and 🎉", "two lines\n\tof 漢字 and 🎉"),
    ],
)
def test_text_with_invisible_characters_is_shown_with_their_code_points(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_error_about_an_invisible_character_keeps_its_place_and_names_it() -> None:
    chain = [
        Thrown("ParseException", "[PARSE_SYNTAX_ERROR] at or near '\u00a0'", "PARSE_SYNTAX_ERROR", "42601", (7, 8))
    ]
    error = bounded(describe(chain, Fragment("SELECT \u00a01", 0), "SELECT \u00a01"))
    assert (error.line, error.position, error.fragment) == (1, 8, "U+00A0")
    assert error.message == "[PARSE_SYNTAX_ERROR] at or near 'U+00A0'"


def test_secret_with_an_invisible_character_stays_masked() -> None:
    error = bounded(masked(OperationError(message="bad: a\u00a0b"), Masker(["a\u00a0b"])))
    assert error.message == f"bad: {MASK}"


@pytest.mark.parametrize(("text", "read"), [("\ufeffSELECT 1", "SELECT 1"), ("\ufeff\ufeffSELECT 1", "\ufeffSELECT 1")])
def test_text_with_a_byte_order_mark_is_read_without_it(text: str, read: str) -> None:
    assert SubmitRequest(boot_id="b", namespace="n", name="s", sql=text).sql == read
    assert InitStatement(sql=text, origin="init[0].sql").sql == read


DENIED = [
    "spark.jars",
    " Spark.JARS.packages ",
    "`spark.jars`",
    "spark.kubernetes.namespace",
    "spark.kubernetes.authenticate.driver.serviceAccountName",
    "spark.driver.extraJavaOptions",
    "spark.executor.extraClassPath",
    "spark.executorEnv.LD_PRELOAD",
    "spark.plugins",
    "spark.master",
    "spark.submit.deployMode",
    "spark.redaction.regex",
    "spark.sql.catalog.ice.cache-enabled",
    "spark.sql.sources.commitProtocolClass",
    "mapreduce.fileoutputcommitter.algorithm.version",
    "spark.dynamicAllocation.maxExecutors",
    "spark.\u200bsql.x",
    "spark.sql. x",
    "",
]


@pytest.mark.parametrize("key", DENIED)
def test_denied_keys_are_denied_whatever_is_allowed(key: str) -> None:
    assert is_denied(key)
    assert not is_allowed(key, ["*"])


@pytest.mark.parametrize(
    "key", ["spark.sql.shuffle.partitions", "SPARK.SQL.Ansi.Enabled", "spark.executor.memoryOverheadFactor"]
)
def test_conf_keys_are_allowed_by_exact_name_or_prefix(key: str) -> None:
    assert is_allowed(key, ["spark.sql.*", "spark.executor.memoryOverhead*"])
    assert not is_allowed(key, ["spark.sql", "other.*"])
    assert not is_allowed(key, [])


@given(key=st.sampled_from(DENIED), case=st.booleans(), space=st.sampled_from(["", " ", "\t", "`", "'"]))
def test_no_spelling_gets_around_the_deny_list(key: str, case: bool, space: str) -> None:
    spelled = space + (key.upper() if case else key) + space
    assert is_denied(spelled)
    assert normalise(normalise(spelled)) == normalise(spelled)


POLICY = SqlPolicy(conf_allow=("spark.sql.*",), enforced_conf={"spark.sql.a": "1"}, jar_prefixes=("s3a://jars/",))


@pytest.mark.parametrize("key", ["spark.sql.a", "SPARK.SQL.A", "spark.jars", "my.key"])
def test_a_setting_that_is_not_allowed_is_refused_naming_the_key_as_written(key: str) -> None:
    with pytest.raises(StatementError, match=key) as refused:
        check_key(key, POLICY)
    assert refused.value.error.reason is ErrorReason.NOT_ALLOWED


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("spark.executor.memory", "set spec.executors.memory of the session instead"),
        ("spark.sql.shufle.partitions", "did you mean 'spark.sql.shuffle.partitions'?"),
    ],
)
def test_refusal_of_a_set_key_has_its_remedy(key: str, remedy: str) -> None:
    with pytest.raises(StatementError) as refused:
        check_key(key, POLICY)
    assert remedy in refused.value.error.message


P = Parameter(name="p", value="hidden", secret=True)


@pytest.mark.parametrize(
    ("parameters", "markers", "remedy"),
    [([P, P], ["p"], "keep one of them"), ([P], ["q"], "used nowhere in the statement: remove it, or write :p")],
)
def test_parameter_that_does_not_fit_its_text_is_refused_with_its_field(
    parameters: list[Parameter], markers: list[str], remedy: str
) -> None:
    with pytest.raises(StatementError) as refused:
        check_usage(parameters, markers)
    message = refused.value.error.message
    assert message.startswith("spec.parameters[p]: ") and remedy in message and "hidden" not in message


def test_parameter_without_a_value_is_named_with_its_field() -> None:
    thrown = Thrown(
        "ExtendedAnalysisException", "Please, fix `args`", "UNBOUND_SQL_PARAMETER", "42P02", (7, 9), (("name", "`n`"),)
    )
    error = describe([thrown], Fragment("SELECT :n", 0), "SELECT :n")
    assert (error.condition, error.sql_state, error.position) == ("UNBOUND_SQL_PARAMETER", "42P02", 8)
    assert "parameter :n has no value: give it one in spec.parameters" in error.message


def test_enforced_keys_are_left_out_of_a_statements_own() -> None:
    assert statement_conf({"spark.sql.a": "2", "spark.sql.shuffle.partitions": "3"}, POLICY) == {
        "spark.sql.shuffle.partitions": "3"
    }


@pytest.mark.parametrize(
    "uri",
    [
        "/tmp/x.jar", "s3a://jar/x.jar", "s3a://jars/../x.jar", "s3a://jars/%2e%2e/x.jar", "S3A://jars/x.jar", "",
        "s3a://jars/x?/../../other/x.jar", "s3a://jars/x#/../../other/x.jar", "s3a://jars/%252e%252e/x.jar", "s3a://jars/.%2E/x.jar",
        "s3a://jars/..%2fx.jar", "s3a://jars/a\\..\\x.jar", "s3a://jars/*.jar", "s3a://jars/[a].jar", "s3a://jars/{a,b}.jar",
        "s3a://jars/%2a.jar", "s3a://jars/x.jar#name", "s3a://jars/x.jar?y", "s3a://jars/x.jar\n", " s3a://jars/x.jar", "s3a://jars/./x.jar",
    ],
)  # fmt: skip
def test_code_from_elsewhere_is_refused(uri: str) -> None:
    with pytest.raises(StatementError):
        check_uri(uri, POLICY)
    check_uri("s3a://jars/a/x.jar", POLICY)
    check_uri("s3a://jars/a+b/x-1.2_3%40.jar", POLICY)


@pytest.mark.parametrize(("times", "allowed"), [(0, True), (3, True), (4, False), (1000, False)])
def test_place_whose_escapes_are_escapes_themselves_is_read_four_times_at_most(times: int, allowed: bool) -> None:
    uri = f"s3a://jars/a/x%{'25' * times}41.jar"
    with contextlib.nullcontext() if allowed else pytest.raises(StatementError, match="one place"):
        check_uri(uri, POLICY)


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        (["a*"], "x" + "a" * 3 + "*", "x" + "*" * 7),
        (["a*"], "a" * 1_000 + "*", MASK),
        (["()", "*"], "x" + "(" * 3 + ")" * 3, "x"),
        (["()", "*"], "x" + "(" * 1_000 + ")" * 1_000, ""),
    ],
)
def test_text_in_which_cuts_make_the_secret_again_and_again_is_hidden_whole(
    secrets: list[str], text: str, shown: str
) -> None:
    assert Masker(secrets).mask(text) == shown


@pytest.mark.parametrize("uri", ["s3a://jars.elsewhere/x.jar", "s3a://jars@elsewhere/x.jar", "s3a://jars:80/x.jar"])
def test_a_prefix_without_a_slash_is_one_bucket(uri: str) -> None:
    policy = SqlPolicy(jar_prefixes=("s3a://jars",))
    with pytest.raises(StatementError):
        check_uri(uri, policy)
    check_uri("s3a://jars/x.jar", policy)


@pytest.mark.parametrize("name", ["`reflect`", "`system`.`builtin`.`java_method`"])
def test_function_of_reflection_is_refused_with_its_name_and_a_remedy(name: str) -> None:
    thrown = Thrown("AnalysisException", "Cannot resolve routine", "UNRESOLVED_ROUTINE", "42883", (7, 14))
    chain = [replace(thrown, parameters=(("routineName", name),))]
    error = describe(chain, Fragment("SELECT reflect('a', 'b')", 0), "SELECT reflect('a', 'b')")
    assert (error.reason, error.line, error.position) == (ErrorReason.NOT_ALLOWED, 1, 8)
    assert name.rpartition(".")[2].strip("`") in error.message and "compute it with functions of SQL" in error.message

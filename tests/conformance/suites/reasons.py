"""Why tests of clients' suites fail, and whose choice each is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.reasons import Cause, Reason

REASONS: Mapping[str, Reason] = {
    "result-sets": Reason(
        Cause.SPARK,
        "Each statement has a result set, as from Spark's own server. impyla refuses such a statement in `executemany`, and fetches no"
        " rows where its tests want an error.",
    ),
    "order-of-nulls": Reason(Cause.SPARK, "ORDER BY puts NULL first."),
    "show-tables": Reason(Cause.SPARK, "SHOW TABLES gives the database first, then the table."),
    "impala": Reason(
        Cause.CLIENT, "The test is of Impala: its settings, its calls, strings of bytes, texts of its progress."
    ),
    "authentication": Reason(Cause.POLICY, "A connection begins with SASL PLAIN, and the password is a token."),
    "dbt-core": Reason(Cause.CLIENT, "The test is for a later dbt-core: `dbt seed --empty`."),
    "follows": Reason(Cause.CLIENT, "An earlier test has failed and left its table."),
}

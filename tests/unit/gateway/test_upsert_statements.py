"""SQL of upserts: names and texts are quoted, and a change that is older than what is there does nothing."""

from __future__ import annotations

from sparksql.api.execution import Upsert
from sparksql.gateway.streaming.upsert.deleted import deleted_name, fingerprint, kept_changes, note_statement
from sparksql.gateway.streaming.upsert.merge import merge_statement
from sparksql.gateway.streaming.upsert.postgresql import (
    DatabaseTable,
    apply_stage,
    find,
    leftovers,
    literal,
    make_stage,
    nullable,
    take_batch,
)
from sparksql.gateway.streaming.upsert.target import UpsertTarget

TARGET = UpsertTarget("`c`.`t`", ("Id", "a`b"), is_delta=False)
KEPT = Upsert(keys=("id",), order_by="ts", delete_when="op = 'd'", deleted_retention_seconds=60)
TABLE = DatabaseTable('"The Shop"', "dst", ('a"b', "v"), ('a"b',), "v")
QUERY = "0b4cdd7c-3ad4-4d1c-8a06-8f1f5a6b6f60"


def test_deletes_are_noted_beside_the_target_and_hold_older_rows_off() -> None:
    assert deleted_name(TARGET) == "`c`.`t__deleted`"
    assert note_statement(KEPT, TARGET) == (
        "MERGE INTO `c`.`t__deleted` d USING (SELECT * FROM __sparksql_batch WHERE __sparksql_delete) s "
        "ON d.`Id` <=> s.`__sparksql_Id` WHEN MATCHED AND coalesce(s.__sparksql_order > d.__sparksql_order, "
        "d.__sparksql_order IS NULL AND s.__sparksql_order IS NOT NULL) "
        "THEN UPDATE SET d.__sparksql_order = s.__sparksql_order, d.__sparksql_at = current_timestamp() "
        "WHEN NOT MATCHED THEN INSERT (`Id`, __sparksql_order, __sparksql_at) "
        "VALUES (s.`__sparksql_Id`, s.__sparksql_order, current_timestamp())"
    )
    assert kept_changes(KEPT, TARGET) == (
        "SELECT b.* FROM __sparksql_batch b LEFT ANTI JOIN `c`.`t__deleted` d ON NOT b.__sparksql_delete "
        "AND d.`Id` <=> b.`__sparksql_Id` AND (b.__sparksql_order <= d.__sparksql_order OR b.__sparksql_order IS NULL)"
    )
    assert f"USING ({kept_changes(KEPT, TARGET)}) s ON " in merge_statement(KEPT, TARGET)


def test_deletes_of_other_keys_or_another_order_are_told_apart() -> None:
    def of(**changed: object) -> str:
        return fingerprint(KEPT.model_copy(update=changed), TARGET)

    assert of(keys=("ID",), deleted_retention_seconds=1, delete_when="x") == of()
    assert of(keys=("id", "a`b")) == of(keys=("A`B", "ID"))
    assert len({of(), of(order_by="ts + 1"), of(keys=("a`b",))}) == 3


def test_statements_for_a_database_quote_names_and_texts() -> None:
    stage = TABLE.stage(QUERY, "01234567")
    assert stage == f'"The Shop"."sparksql_stage_{QUERY}_01234567"'
    assert len(stage.rpartition(".")[2].strip('"')) <= 63
    assert literal("it's") == "'it''s'"
    assert find('"it\'s".t').endswith("to_regclass('\"it''s\".t')")
    assert nullable(TABLE).endswith("""'"The Shop".dst'::regclass AND attname IN ('a"b') AND NOT attnotnull""")
    assert (
        f"""quote_ident(schemaname) = '"The Shop"' AND starts_with(tablename, 'sparksql_stage_{QUERY}_')"""
        in leftovers(TABLE, QUERY)
    )
    assert make_stage(TABLE, "s") == (
        'CREATE UNLOGGED TABLE s AS SELECT "a""b", "v", false AS "__sparksql_delete" FROM "The Shop".dst WITH NO DATA'
    )
    assert take_batch(TABLE, QUERY, 7) == (
        f"""INSERT INTO "The Shop".sparksql_batches AS b VALUES ('{QUERY}', 7) """
        "ON CONFLICT (query) DO UPDATE SET batch = excluded.batch WHERE b.batch < excluded.batch"
    )


def test_a_stage_is_applied_where_it_is_not_older_than_the_row() -> None:
    delete, upsert, drop = apply_stage(TABLE, "s")
    assert delete == (
        'DELETE FROM "The Shop".dst t USING s s WHERE s."__sparksql_delete" AND t."a""b" = s."a""b" '
        'AND coalesce(s."v" >= t."v", t."v" IS NULL)'
    )
    assert upsert == (
        'INSERT INTO "The Shop".dst AS t ("a""b", "v") SELECT DISTINCT ON ("a""b") "a""b", "v" FROM s s '
        'WHERE NOT s."__sparksql_delete" ON CONFLICT ("a""b") DO UPDATE SET "a""b" = excluded."a""b", "v" = excluded."v" '
        'WHERE true AND coalesce(excluded."v" >= t."v", t."v" IS NULL)'
    )
    assert drop == "DROP TABLE s"
    without_order = DatabaseTable("s", "t", ("k",), ("k",), None)
    assert not [statement for statement in apply_stage(without_order, "s") if "coalesce" in statement]

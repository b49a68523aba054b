"""Keys that were removed from a target, kept for some time, so that an older change of one does not bring its row back.

They are in a table of their own beside the target, `<target>__deleted`, with the order value of the delete. A batch is two
commits: first the keys that it removes are noted there, then it is merged into the target, without the rows that a noted
delete is not older than. A driver may die between the two. The batch runs again then, and it does the same as without that
death: noting keeps the greatest value for a key, which is there already, and the MERGE has seen the batch's own deletes in
both cases. The other way round would not do: a batch that is in the target is not run again, and would never note its deletes.

With it the rows of a target depend on the changes alone, in whatever order and in whatever batches they come: of one key the
greatest order value wins, NULL is below all values, and of equal values the delete.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field

from sparksql.api.execution import Upsert
from sparksql.gateway.spark.shapes import JvmSession
from sparksql.gateway.streaming.upsert.batch import invalid
from sparksql.gateway.streaming.upsert.names import DELETE, ORDER, PREFIX, VIEW, prefixed, quoted
from sparksql.gateway.streaming.upsert.target import UpsertTarget

SUFFIX = "__deleted"
_AT = f"{PREFIX}at"
# Properties of the table: whose deletes it has, and what of the spec they were noted by.
_TARGET, _CHANGES = "sparksql.deleted-of", "sparksql.deleted-by"
# Looking for what has expired reads the table: a tenth of the retention lies between two looks, within these bounds.
_MIN_LOOK_SECONDS, _MAX_LOOK_SECONDS = 60.0, 3600.0


@dataclass
class DeletedKeys:
    """The deleted keys of one target, as one start of a query uses them."""

    options: Upsert
    target: UpsertTarget
    seconds: int
    _is_ready: bool = field(default=False, init=False)
    _next_look: float = field(default=0.0, init=False)

    @staticmethod
    def wanted(options: Upsert, target: UpsertTarget) -> DeletedKeys | None:
        """Returns those that the spec asks for, None if it does not."""
        seconds = options.deleted_retention_seconds
        return None if seconds is None else DeletedKeys(options, target, seconds)

    def note(self, session: JvmSession) -> None:
        """Notes the deletes of the batch in the view. The first time the table is made if need be.

        Raises StatementError for a table of that name that is not ours.
        """
        if not self._is_ready:
            self._make(session)
            self._is_ready = True
        if session.table(VIEW).where(DELETE).isEmpty():  # a MERGE of nothing may leave a commit
            return
        session.sql(note_statement(self.options, self.target))

    def expire(self, session: JvmSession) -> None:
        """Removes what has been kept for the retention, if it is time to look for it."""
        if time.monotonic() < self._next_look:
            return
        pause = min(max(self.seconds / 10, _MIN_LOOK_SECONDS), _MAX_LOOK_SECONDS)
        self._next_look = time.monotonic() + pause
        name = deleted_name(self.target)
        expired = f"{_AT} < timestampadd(SECOND, -{self.seconds}, current_timestamp())"
        if not session.table(name).where(expired).isEmpty():
            session.sql(f"DELETE FROM {name} WHERE {expired}")  # noqa: S608 - names are quoted

    def check(self, session: JvmSession) -> None:
        """Raises StatementError without an order or deletes, and for a table of that name with other keys or another order."""
        if not (self.options.order_by and self.options.delete_when):
            raise invalid(
                "deletedRetentionSeconds", "it needs deleteWhen and orderBy, by which changes are older or newer"
            )
        self._found(session)

    def _found(self, session: JvmSession) -> str | None:
        """The id of the target whose deletes the table has, None without a table."""
        name = deleted_name(self.target)
        if not session.catalog().tableExists(name):
            return None
        rows = session.sql(f"SHOW TBLPROPERTIES {name}").collectAsList()
        properties = {str(row.get(0)): str(row.get(1)) for row in rows}
        if _CHANGES not in properties:
            raise invalid("deletedRetentionSeconds", f"table {name} is needed for it and is another one: rename that")
        if properties[_CHANGES] != fingerprint(self.options, self.target):
            message = (
                f"table {name} has deletes of other keys or of another orderBy; drop it, and older changes of what was "
                "removed so far are inserted again"
            )
            raise invalid("deletedRetentionSeconds", message)
        return properties.get(_TARGET)

    def _make(self, session: JvmSession) -> None:
        """Makes the table, and anew when it has the deletes of another table that had the target's name."""
        identity = self.target.identity(session)
        match self._found(session):
            case None:
                session.sql(_create("CREATE TABLE", self.options, self.target, identity))
            case found if found != identity:
                session.sql(_create("CREATE OR REPLACE TABLE", self.options, self.target, identity))


def deleted_name(target: UpsertTarget) -> str:
    """Returns the quoted name of the table beside the target."""
    return f"{target.name[:-1]}{SUFFIX}`"


def fingerprint(options: Upsert, target: UpsertTarget) -> str:
    """Returns what tells deletes of these keys and this order from others."""
    meaning = json.dumps([sorted(target.own(options.keys)), options.order_by])
    return hashlib.sha256(meaning.encode()).hexdigest()


def note_statement(options: Upsert, target: UpsertTarget) -> str:
    """Returns the MERGE of a prepared batch's deletes into the table beside the target."""
    keys = target.own(options.keys)
    same = " AND ".join(f"d.{quoted(key)} <=> s.{prefixed(key)}" for key in keys)
    columns = ", ".join((*map(quoted, keys), ORDER, _AT))
    values = ", ".join((*(f"s.{prefixed(key)}" for key in keys), f"s.{ORDER}", "current_timestamp()"))
    return " ".join(
        (
            f"MERGE INTO {deleted_name(target)} d USING (SELECT * FROM {VIEW} WHERE {DELETE}) s ON {same}",  # noqa: S608 - names are quoted
            f"WHEN MATCHED AND coalesce(s.{ORDER} > d.{ORDER}, d.{ORDER} IS NULL AND s.{ORDER} IS NOT NULL)",
            f"THEN UPDATE SET d.{ORDER} = s.{ORDER}, d.{_AT} = current_timestamp()",
            f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})",  # noqa: S608 - names are quoted
        )
    )


def kept_changes(options: Upsert, target: UpsertTarget) -> str:
    """Returns the query of a prepared batch's changes without the rows that a noted delete is not older than."""
    same = " AND ".join(f"d.{quoted(key)} <=> b.{prefixed(key)}" for key in target.own(options.keys))
    return (
        f"SELECT b.* FROM {VIEW} b LEFT ANTI JOIN {deleted_name(target)} d "  # noqa: S608 - names are quoted
        f"ON NOT b.{DELETE} AND {same} AND (b.{ORDER} <= d.{ORDER} OR b.{ORDER} IS NULL)"
    )


def _create(how: str, options: Upsert, target: UpsertTarget, identity: str) -> str:
    """The statement that makes the table: the keys have the target's types, the order the batch's."""
    keys = ", ".join(f"t.{quoted(key)}" for key in target.own(options.keys))
    provider = "delta" if target.is_delta else "iceberg"
    return " ".join(
        (
            f"{how} {deleted_name(target)} USING {provider}",
            f"TBLPROPERTIES ('{_TARGET}' = '{identity}', '{_CHANGES}' = '{fingerprint(options, target)}')",
            f"AS SELECT {keys}, s.{ORDER}, current_timestamp() AS {_AT}",
            f"FROM {target.name} t CROSS JOIN {VIEW} s WHERE false",
        )
    )

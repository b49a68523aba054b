"""SqlSavepoint: accepted by the API, not implemented yet; the object says so instead of waiting silently."""

from __future__ import annotations

from sparksql.api.conditions import Condition, ConditionStatus, ConditionType, merge_conditions
from sparksql.api.reasons import Reason
from sparksql.api.savepoint import SavepointPhase, SqlSavepoint
from sparksql.controllers.indexes import SAVEPOINT
from sparksql.controllers.runtime import Runtime
from sparksql.engine.key import Key
from sparksql.kube.errors import Conflict, NotFound

_CONDITIONS = (
    (ConditionType.READY, ConditionStatus.FALSE),
    (ConditionType.RECONCILING, ConditionStatus.FALSE),
    (ConditionType.STALLED, ConditionStatus.TRUE),
    (ConditionType.SUCCEEDED, ConditionStatus.UNKNOWN),
    (ConditionType.FINISHED, ConditionStatus.FALSE),
)


class SavepointController:
    def __init__(self, runtime: Runtime) -> None:
        self._rt = runtime

    async def reconcile(self, key: Key) -> float | None:
        obj = self._rt.store.get(SAVEPOINT, key.namespace, key.name)
        if obj is None:
            return None
        savepoint = SqlSavepoint.parse(obj)
        generation = savepoint.metadata.generation
        message = "savepoints are not implemented yet; nothing is copied and nothing is deleted"
        desired = tuple(
            Condition(type=type_, status=status, reason=Reason.NOT_IMPLEMENTED, message=message)
            for type_, status in _CONDITIONS
        )
        conditions = merge_conditions(savepoint.status.conditions, desired, generation=generation, now=self._rt.clock())
        status = savepoint.status.replace(
            observed_generation=generation, phase=SavepointPhase.PENDING, conditions=conditions
        )
        try:
            await self._rt.status.write(SAVEPOINT, obj, status.to_dict())
        except (Conflict, NotFound):
            await self._rt.status.refresh(SAVEPOINT, key.namespace, key.name)
            return 0.1
        return None

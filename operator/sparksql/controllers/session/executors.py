"""Why a driver gets no more executor pods. Spark logs such a refusal in the driver alone.

An executor whose creation is refused leaves no pod and no Event. So the API server checks one like it (a dry run):
that goes through quotas, limits, policies and webhooks, and its answer is what the driver got.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

from sparksql.controllers.context import ControllerContext
from sparksql.controllers.start_failures import violation_of
from sparksql.domain.session.executors import lacks_pods
from sparksql.domain.session.resolve import Resolved
from sparksql.domain.session.snapshot import Snapshot
from sparksql.domain.violation import Violation
from sparksql.kube.builders.executor import executor_pod
from sparksql.kube.errors import ApiError, NotFound, TooManyRequests, Unavailable
from sparksql.kube.resources import PODS

_CHECK_AGAIN = timedelta(seconds=25)  # less than a session's look at missing executors
_REMEMBERED = 1000  # drivers


class ExecutorChecks:
    """Checks whether another executor of a session could be made; of one driver at most every _CHECK_AGAIN."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._answers: OrderedDict[str, tuple[datetime, Violation | None]] = OrderedDict()  # by the driver pod's UID

    async def refusal(self, s: Snapshot) -> Violation | None:
        """Returns what the API server answers to another executor of a session that lacks pods, None if it would make one.

        The pod is made from the class as it is now: a driver that was started before a change of it gets others.
        """
        driver = s.session.status.driver
        if driver is None or driver.pod_uid is None or not isinstance(s.resolution, Resolved) or not lacks_pods(s):
            return None
        known = self._answers.get(driver.pod_uid)
        if known is not None and s.now - known[0] < _CHECK_AGAIN:
            return known[1]
        built = s.resolution.effective
        answer = None
        try:
            await self._context.client.check_create(PODS, built.namespace, executor_pod(built, driver.incarnation))
        except (Unavailable, TooManyRequests, NotFound):
            return known[1] if known is not None else None  # no answer about the pod
        except ApiError as error:
            answer = violation_of(error, built.class_name)
        self._answers[driver.pod_uid] = (s.now, answer)
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        return answer

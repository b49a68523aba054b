"""Why the kubelet does not get to start a pod's containers, in its own words: it writes them into Events alone.

A volume that cannot be mounted, as of a Secret that is missing, leaves the container in ContainerCreating with no message. Events
are not watched, there are too many; those of one pod are listed while it waits so for longer than a healthy pod does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sparksql.controllers.context import ControllerContext
from sparksql.domain.session.snapshot import PodFacts
from sparksql.kube.errors import ApiError
from sparksql.kube.resources import EVENTS

QUIET = timedelta(seconds=10)  # for so long a pod may be created without a word
_LOOK_AGAIN = timedelta(seconds=10)
_REMEMBERED = 1000  # pods
_MOST = 100  # Events of one pod: repetitions are counted in one
_MAX_CHARS = 300

Object = dict[str, Any]


class PodEvents:
    """Reads Events of pods that wait without a reason; of one pod at most every _LOOK_AGAIN."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._words: OrderedDict[str, tuple[datetime, str | None]] = OrderedDict()  # by the pod's UID

    async def explained(self, namespace: str, pod: PodFacts) -> PodFacts:
        """Returns the pod with what its Events say, if it waits and its status does not say for what."""
        if pod.ended is not None or pod.deleting or self._context.clock() - pod.created < QUIET:
            return pod
        if pod.gates:
            return replace(pod, queue_words=await self._last(namespace, pod))
        is_creating = pod.has_node and pod.started is None
        if not is_creating or pod.image_problem is not None or pod.container_problem is not None:
            return pod
        return replace(pod, container_problem=await self._last(namespace, pod))

    async def _last(self, namespace: str, pod: PodFacts) -> str | None:
        """The last Event of the pod: of one that waits for a node or in a queue any, else a warning since it has its node."""
        now, known = self._context.clock(), self._words.get(pod.uid)
        if known is not None and now - known[0] < _LOOK_AGAIN:
            return known[1]
        try:
            events = await self._context.client.list_some(EVENTS, namespace, f"involvedObject.uid={pod.uid}", _MOST)
        except ApiError:
            return known[1] if known is not None else None  # an explanation only: the start goes on without
        words = last_words(events, of_kubelet=not pod.gates)
        self._words[pod.uid] = (now, words)
        if len(self._words) > _REMEMBERED:
            self._words.popitem(last=False)
        return words


def last_words(events: Sequence[Object], *, of_kubelet: bool) -> str | None:
    """Returns reason and message of the newest Event; with `of_kubelet` of the newest warning that followed `Scheduled`.

    Whatever comes after a pod has its node, and before its containers run, is about their creation. So no list of reasons is
    needed. None if there is no such Event.
    """
    ordered = sorted(events, key=_time)
    if of_kubelet:
        # Of the scheduler are those before the binding, which hold no more.
        bound = [_time(each) for each in ordered if (each.get("type"), each.get("reason")) == ("Normal", "Scheduled")]
        since = bound[-1] if bound else ""
        ordered = [each for each in ordered if each.get("type") == "Warning" and _time(each) >= since]
    if not ordered:
        return None
    return f"{ordered[-1].get('reason')}: {str(ordered[-1].get('message', '')).strip()[:_MAX_CHARS]}"


def _time(event: Object) -> str:
    """RFC 3339 texts, whose order is that of time; Events of the newer API have `eventTime`, repeated ones a series."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((time for time in times if time), event["metadata"].get("creationTimestamp", "")))[:19]

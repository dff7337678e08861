"""Finds out what reassignments wait for, and since when. Pure.

A reassignment ends when all replicas of its target are in sync. It never ends if one of them is on a broker that is not
there, or if nobody leads the partition. Apache Kafka says nothing about that. Only the partition's leader knows how far
a replica is that fetches. So the controller reports such a replica only after a longer time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from broker.controller.cluster.model.assignments import target
from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.history import Change
from kafkalog.protocol.messages.describe_topic_partitions import WAITS_SINCE

LOOK_S = 15.0
"""The interval at which the controller looks at the reassignments that are in progress."""
HOPELESS_MS = 30_000
"""The controller reports a reassignment that has waited this long for something that does not come by itself."""
SLOW_MS = 600_000
"""The controller reports a reassignment that has waited this long for a replica that may be copying."""


class _Waiting(NamedTuple):
    reasons: tuple[str, ...]
    since_ms: int
    is_told: bool


class Stalls:
    """The reasons for which the reassignments of one controller wait."""

    def __init__(self) -> None:
        self._waiting: dict[PartitionKey, _Waiting] = {}

    def look(self, context: ControllerContext, now_ms: int) -> list[Change]:
        """Return what has to be reported by now, each reason once; `now_ms` is in milliseconds since the epoch."""
        before, self._waiting = self._waiting, {}
        told: list[Change] = []
        for key in sorted(context.reassigning):
            hopeless, slow = _reasons(context, key)
            reasons = (*hopeless, *slow)
            if not reasons:
                continue
            waiting = before.get(key)
            if waiting is None or waiting.reasons != reasons:
                waiting = _Waiting(reasons, now_ms, is_told=False)
            if not waiting.is_told and now_ms - waiting.since_ms >= (HOPELESS_MS if hopeless else SLOW_MS):
                waiting = waiting._replace(is_told=True)
                assignment = context.assignment(key)
                since = datetime.fromtimestamp(waiting.since_ms / 1000, UTC).isoformat(timespec="seconds")
                told.append(Change(*key, f"{WAITS_SINCE} {since}", "; ".join(reasons), assignment, assignment))
            self._waiting[key] = waiting
        return told


def _reasons(context: ControllerContext, key: PartitionKey) -> tuple[list[str], list[str]]:
    """Return what a reassignment waits for: what does not come by itself, and what may come."""
    state = context.states.get(key)
    hopeless: list[str] = []
    slow: list[str] = []
    if state is None or not context.is_online(state.leader, key):
        hopeless.append("nobody leads the partition")
    isr = () if state is None else state.isr
    for broker_id in target(context.assignment(key)):
        if broker_id in isr:
            continue
        if broker_id not in context.live():
            hopeless.append(f"broker {broker_id} is not registered")
        elif not context.is_online(broker_id, key):
            hopeless.append(f"a log directory of broker {broker_id} has failed")
        else:
            slow.append(f"broker {broker_id} is not in sync")
    return hopeless, slow

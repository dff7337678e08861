"""The reasons why a reassignment is not complete, as the controller and the partition's leader tell them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kafkalog.cli.admin.reassign.progress import duration
from kafkalog.protocol.messages.describe_topic_partitions import WAITS_SINCE

if TYPE_CHECKING:
    from kafkalog.client.admin.replicas.explanations import ExplainedPartition, FollowerPosition
    from kafkalog.client.admin.replicas.replica_admin import Reassignment

SILENT_MS = 10_000
"""A replica that has not fetched for so long is not copying: followers fetch twice a second."""


def waits(reassignment: Reassignment, found: ExplainedPartition, alive: Collection[int]) -> Iterator[str]:
    """Yield a line for each replica of the target that is not in sync, and what the controller says.

    Args:
        reassignment: the reassignment, which is in progress.
        found: what the controller and the leader tell of the partition.
        alive: the live brokers.
    """
    if found.leader < 0:
        yield "nobody leads the partition"
    positions = {each.broker: each for each in found.followers}
    for broker in reassignment.replicas:
        if broker in found.isr or broker in reassignment.removing:
            continue
        if broker not in alive:
            yield f"broker {broker} is not alive"
        elif found.silence is not None:
            yield f"broker {broker} is not in sync; how far it is, is not known: {found.silence}"
        elif broker != found.leader:
            yield f"broker {broker} {_position(positions.get(broker), found.leader)}"
    if found.changes and (last := found.changes[-1]).what.startswith(WAITS_SINCE):
        yield f"{last.what}, because {last.cause}"


def _position(follower: FollowerPosition | None, leader: int) -> str:
    if follower is None or follower.fetched_ms < 0:
        return f"has not fetched from the leader, broker {leader}, in this leader epoch"
    lacks = f"lacks {follower.lag} records"
    if follower.fetched_ms >= SILENT_MS:
        return f"has not fetched for {duration(follower.fetched_ms / 1000)}, and {lacks}"
    return lacks

"""Plan the move of a group's offsets between ZooKeeper and Kafka. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from kafkalog.client.types import TopicPartition


class Outcome(Enum):
    """The outcome for the offset of a partition."""

    MOVED = "moved"
    SAME = "same"
    """The target has it already."""
    AHEAD = "kept: the target is ahead"
    """A group whose members use both stores reads the larger one, so it is kept."""
    GONE = "skipped: no such partition"


class Move(NamedTuple):
    """The offset of a partition in both stores, and what becomes of it."""

    partition: TopicPartition
    source: int
    target: int | None
    """None where the target has none."""
    outcome: Outcome


def plan_moves(
    source: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    partitions: Collection[TopicPartition],
    *,
    overwrite: bool = False,
) -> list[Move]:
    """Return what becomes of each offset of the source, sorted by partition.

    Args:
        source: The offsets to move.
        target: The offsets that are there already.
        partitions: The partitions that exist.
        overwrite: Whether larger offsets of the target are replaced, too.
    """
    found = []
    for tp, offset in sorted(source.items()):
        there = target.get(tp)
        if tp not in partitions:
            outcome = Outcome.GONE
        elif there == offset:
            outcome = Outcome.SAME
        elif there is not None and there > offset and not overwrite:
            outcome = Outcome.AHEAD
        else:
            outcome = Outcome.MOVED
        found.append(Move(tp, offset, there, outcome))
    return found

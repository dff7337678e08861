"""Give the batches of one partition to its task, up to one that the target refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.keeping.task import KeptTask


class Until(Enum):
    """The place where the sending has ended."""

    END = auto()
    """After the last batch."""
    WAITING = auto()
    """Before a batch that must wait, because the target has refused it."""
    REFUSED = auto()
    """After a batch that the target has refused once more. The task is to be asked for it by `take_undone`."""


class Sent(NamedTuple):
    """The part of a partition that was sent."""

    until: Until
    position: int
    """The next offset to read in the source."""
    size: int
    """The number of bytes."""


def send(
    tp: TopicPartition,
    task: MirrorTask | KeptTask,
    batches: Iterable[tuple[MirroredBatch | None, int]],
    position: int,
    progress: Progress,
    commit: Callable[[], None],
) -> Sent:
    """Send batches that are read from a position on.

    Args:
        tp: Their partition of the source.
        task: What sends them.
        batches: Each with the position behind it; None stands for what is not mirrored.
        position: The position before the first one.
        progress: What counts them, and knows those that the target refuses.
        commit: Commits the task. A refused batch is sent again between two commits.
    """
    refused, size = progress.refused, 0
    for batch, after in batches:
        if batch is None:
            task.advance(tp, position := after)
            continue
        if refused.must_stop(tp, batch):
            return Sent(Until.WAITING, position, size)
        is_tried = refused.is_tried(tp, batch)
        if is_tried:
            commit()
        size += len(batch.data)
        progress.count(tp, batch)
        task.send(tp, batch)
        task.advance(tp, position := after)
        if is_tried:
            commit()
            if refused.is_held(tp):
                return Sent(Until.REFUSED, position, size)
    return Sent(Until.END, position, size)

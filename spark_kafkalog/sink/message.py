"""What tasks tell the driver that they wrote."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from kafkalog.client.types import TopicPartition

from .transactional.claim import BatchWrote, Claim
from .transactional.ledger_record import TaskTransaction

_log = logging.getLogger(__name__)


@dataclass
class Written:
    """Of one partition: rows, bytes of their record batches as they were sent, and offsets.

    Offsets are those of the first and of the last row, None where brokers did not tell them (acks=0). Between them may
    lie rows of others.
    """

    rows: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def add(self, other: Written) -> None:
        """Count in what else was written to the partition."""
        self.rows += other.rows
        self.bytes += other.bytes
        if other.first_offset is not None:
            known = self.first_offset
            self.first_offset = other.first_offset if known is None else min(known, other.first_offset)
        if other.last_offset is not None:
            known = self.last_offset
            self.last_offset = other.last_offset if known is None else max(known, other.last_offset)


@dataclass
class TaskWrote(WriterCommitMessage):
    """What one task wrote, by partition; and in the transactional mode for which claim, and what it has left open."""

    partitions: dict[TopicPartition, Written] = field(default_factory=dict)
    claim: Claim | None = None
    query: str = ""
    transaction: TaskTransaction | None = None

    def add(self, partition: TopicPartition, written: Written) -> None:
        """Count in what was written to a partition."""
        self.partitions.setdefault(partition, Written()).add(written)


def total(messages: Iterable[WriterCommitMessage | None]) -> TaskWrote:
    """What all tasks wrote; a task that failed has no message."""
    result = TaskWrote()
    for message in messages:
        if isinstance(message, TaskWrote):
            for partition, written in message.partitions.items():
                result.add(partition, written)
    return result


def written_together(messages: Iterable[WriterCommitMessage | None]) -> BatchWrote | None:
    """What the tasks of a claim wrote, to be decided together; None where no task has reported."""
    reports = [each for each in messages if isinstance(each, TaskWrote) and each.claim is not None]
    claims = {each.claim for each in reports if each.claim is not None}
    if not claims:
        return None
    (claim,) = claims
    return BatchWrote(claim, reports[0].query, [each.transaction for each in reports if each.transaction is not None])


def tell(level: int, text: str, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Log a line for each partition that tasks wrote to; ``text`` has a place for it.

    Where Spark collects the logs of its workers it takes what loggers let through, and nobody but this code can set
    their levels there: so these lines are let through unless somebody did.
    """
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    for line in describe(total(messages)):
        _log.log(level, text, line)


def describe(wrote: TaskWrote) -> list[str]:
    """A line for each partition, in order."""
    lines = []
    for partition, each in sorted(wrote.partitions.items()):
        offsets = "" if each.first_offset is None else f", offsets {each.first_offset} to {each.last_offset}"
        lines.append(f"{partition.topic}-{partition.partition}: {each.rows} rows, {each.bytes} bytes{offsets}")
    return lines

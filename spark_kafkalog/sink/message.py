"""The reports of tasks to the driver: what each has written."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from kafkalog.client.types import TopicPartition
from spark_kafkalog.sink.transactional.claim import BatchWrote, Claim
from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction

logger = logging.getLogger(__name__)


@dataclass
class Written:
    """The rows written to one partition: their number, bytes of their record batches as sent, and offsets.

    The offsets are those of the first and the last row; None if brokers did not return them (acks=0). Rows of other
    producers may lie between them.
    """

    rows: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None

    def add(self, other: Written) -> None:
        """Add what else was written to the partition."""
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
    """The rows that one task wrote, by partition. In the transactional mode also its claim and open transaction."""

    partitions: dict[TopicPartition, Written] = field(default_factory=dict)
    claim: Claim | None = None
    query: str = ""
    transaction: TaskTransaction | None = None

    def add(self, partition: TopicPartition, written: Written) -> None:
        """Add what was written to a partition."""
        self.partitions.setdefault(partition, Written()).add(written)


def total(messages: Iterable[WriterCommitMessage | None]) -> TaskWrote:
    """Return the sum of all tasks' reports. A failed task has none."""
    result = TaskWrote()
    for message in messages:
        if isinstance(message, TaskWrote):
            for partition, written in message.partitions.items():
                result.add(partition, written)
    return result


def written_together(messages: Iterable[WriterCommitMessage | None]) -> BatchWrote | None:
    """Return what the tasks of a claim wrote, to be decided together; None if no task has reported."""
    reports = [each for each in messages if isinstance(each, TaskWrote) and each.claim is not None]
    claims = {each.claim for each in reports if each.claim is not None}
    if not claims:
        return None
    (claim,) = claims
    return BatchWrote(claim, reports[0].query, [each.transaction for each in reports if each.transaction is not None])


def tell(level: int, text: str, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Log a line for each partition that tasks wrote to; `text` has a placeholder for it.

    Where Spark collects the logs of its workers, it takes what loggers let through, and only this code can set their
    levels there. So the logger's level becomes INFO unless somebody has set it.
    """
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    for line in describe(total(messages)):
        logger.log(level, text, line)


def describe(wrote: TaskWrote) -> list[str]:
    """Return a line for each partition, in order."""
    lines = []
    for partition, each in sorted(wrote.partitions.items()):
        offsets = "" if each.first_offset is None else f", offsets {each.first_offset} to {each.last_offset}"
        lines.append(f"{partition.topic}-{partition.partition}: {each.rows} rows, {each.bytes} bytes{offsets}")
    return lines

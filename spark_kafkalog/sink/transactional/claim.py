"""Data that the driver and the tasks of one micro-batch exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction


@dataclass(frozen=True)
class Claim:
    """The right to write for one micro-batch.

    `made_at` is a time of the driver's machine (`commit_driver.since_boot`), which has one clock for all its processes.
    `query` and `batch` name the micro-batch that was decided last; tasks of that micro-batch write nothing.
    """

    number: int
    made_at: float
    query: str
    batch: int


@dataclass(frozen=True)
class BatchWrote:
    """The reports of all tasks: their claim, Spark's id of their query ("" if unknown), and the open transactions."""

    claim: Claim
    query: str
    transactions: Sequence[TaskTransaction]

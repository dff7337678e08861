"""Data loss: the conditions of Spark's `KAFKA_DATA_LOSS` error class, and the reaction to a loss.

With `failOnDataLoss=true` (the default) a loss ends the query; otherwise it is logged and the query goes on with
what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

logger = logging.getLogger(__name__)

GONE_AFTER_S = 10.0
"""A topic that brokers have not known for this long counts as deleted. A broker that has just started may know none."""

RECREATED_AFTER_S = 1.0
"""A topic whose id has been another one for this long was created again. A broker that lags may tell the old id."""


class Condition(StrEnum):
    """Sub-classes of `KAFKA_DATA_LOSS`, as Spark names them. Only this source has `TOPIC_RECREATED`."""

    ADDED_PARTITION = "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    COULD_NOT_READ = "COULD_NOT_READ_OFFSET_RANGE"
    INITIAL_OFFSET_NOT_FOUND = "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"
    PARTITIONS_DELETED = "PARTITIONS_DELETED"
    TOPIC_RECREATED = "TOPIC_RECREATED"
    OFFSET_CHANGED = "PARTITION_OFFSET_CHANGED"


class DataLossError(RuntimeError):
    """Records that the query should have read are gone. `condition` says how they were lost."""

    def __init__(self, condition: Condition, detail: str) -> None:
        super().__init__(
            f'{_told(condition, detail)} To go on with what is left, set the source option "failOnDataLoss" to "false".'
        )
        self.condition = condition
        self.detail = detail

    def __reduce__(self) -> tuple[type[DataLossError], tuple[Condition, str]]:
        return type(self), (self.condition, self.detail)


def _told(condition: Condition, detail: str) -> str:
    return (
        f"[KAFKA_DATA_LOSS.{condition.value}] {detail} Some data may have been lost: it was aged out by Kafka, or the "
        "topic was deleted, before all of its data was processed."
    )


Report = Callable[[Condition, str], None]
"""Called with each loss that planning or reading finds."""


def reporter(fail: bool) -> Report:
    """Return the reaction that `failOnDataLoss` asks for: it ends the query with DataLossError, or logs a warning."""

    def report(condition: Condition, detail: str) -> None:
        if fail:
            raise DataLossError(condition, detail)
        logger.warning("%s The query goes on with what is left.", _told(condition, detail))

    return report

"""Why a produced batch is refused for some of its records, and for which (KIP-467).

As Kafka's LogValidator: in a compacted topic each record has a key, and where timestamps are the producers' they lie
within the topic's bounds. A record that breaks both rules counts as one without a key. One bad timestamp makes the
whole batch INVALID_TIMESTAMP; otherwise it is INVALID_RECORD.

A batch is refused at the price of the compiled check. Only its sender's answer needs the list of records, so the list
is made apart, by a walk in plain Python that a worker may take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from kafkalog.protocol.errors import InvalidRecordError, InvalidTimestampError
from kafkalog.records.batch import NO_TIMESTAMP
from kafkalog.records.validate import keys_and_timestamps

_SHOWN = 3
"""Record errors that the message of the whole batch repeats, as Kafka's does."""


class RecordError(NamedTuple):
    """One record by its index in the batch, and what is wrong with it."""

    batch_index: int
    message: str


@dataclass(frozen=True, slots=True)
class RecordRules:
    """What a topic asks of each record at one time.

    Attributes:
        earliest, latest: bounds of a timestamp; None where any timestamp is taken.
        label: of the partition, for messages.
    """

    require_keys: bool
    earliest: int | None
    latest: int | None
    label: str

    @classmethod
    def of(cls, config: LogConfig, now_ms: int, label: str, *, from_client: bool) -> RecordRules:
        """The rules of a topic with ``config`` at the time ``now_ms``."""
        by_producer = config.message_timestamp_type != LOG_APPEND_TIME
        return cls(
            config.compact and from_client,
            now_ms - config.message_timestamp_before_max_ms if by_producer else None,
            now_ms + config.message_timestamp_after_max_ms if by_producer else None,
            label,
        )

    def takes_timestamp(self, timestamp: int) -> bool:
        """Whether a record may have ``timestamp``. No timestamp at all is not too early."""
        if self.earliest is None or self.latest is None or timestamp == NO_TIMESTAMP:
            return True
        return self.earliest <= timestamp <= self.latest

    def takes_all_between(self, least: int, most: int) -> bool:
        """Whether any records with timestamps from ``least`` to ``most`` are taken, by these two alone."""
        if not (self.takes_timestamp(least) and self.takes_timestamp(most)):
            return False
        # Where some records have no timestamp, the least of the others is not known.
        return least != NO_TIMESTAMP or most == NO_TIMESTAMP or self.earliest is None or self.earliest <= NO_TIMESTAMP

    def rejection(self, records: Iterable[tuple[bool, int]]) -> InvalidRecordError | InvalidTimestampError | None:
        """The error of a batch with ``records``, each given as whether it has a key and its timestamp."""
        lacks_key = False
        for has_key, timestamp in records:
            if self.require_keys and not has_key:
                lacks_key = True
            elif not self.takes_timestamp(timestamp):
                return RejectedTimestampsError(self)
        return RejectedRecordsError(self) if lacks_key else None

    def record_errors(self, batch: memoryview, most: int) -> list[RecordError]:
        """The records of a whole and valid ``batch`` of v2 that break a rule, the first ``most`` of them."""
        found: list[RecordError] = []
        for index, (has_key, timestamp) in enumerate(keys_and_timestamps(batch)):
            if len(found) >= most:
                break
            if self.require_keys and not has_key:
                message = f"Compacted topic cannot accept message without key in topic partition {self.label}"
            elif not self.takes_timestamp(timestamp):
                message = (
                    f"Timestamp {timestamp} of message with offset {index} is out of range. "
                    f"The timestamp should be within [{self.earliest}, {self.latest}]"
                )
            else:
                continue
            found.append(RecordError(index, message))
        return found


class RejectedRecordsError(InvalidRecordError):
    """A batch has records without a key and its topic is compacted.

    Attributes:
        rules: find the records.
    """

    def __init__(self, rules: RecordRules) -> None:
        super().__init__(f"One or more records sent to {rules.label} have been rejected, for they have no key")
        self.rules = rules

    def describe(self, found: list[RecordError]) -> str:
        """The message for the whole batch, once its records have been found."""
        if not found:
            return self.message
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in found[:_SHOWN])
        return (
            f"One or more records have been rejected due to {len(found)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )


class RejectedTimestampsError(InvalidTimestampError):
    """A batch has records whose timestamps are out of the topic's bounds.

    Attributes:
        rules: find the records.
    """

    def __init__(self, rules: RecordRules) -> None:
        super().__init__("One or more records have been rejected due to invalid timestamp")
        self.rules = rules

    def describe(self, found: list[RecordError]) -> str:
        """The message for the whole batch."""
        return self.message

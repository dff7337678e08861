"""The reason why a produced batch is refused, and those of its records that are at fault (KIP-467).

The rules are those of Kafka's LogValidator. In a compacted topic each record must have a key. Timestamps that producers
set must lie within the topic's bounds. A batch must not claim that a broker set its timestamps (LogAppendTime), unless
the topic takes CreateTime: then the timestamp that the batch claims counts as the producer's. A record that breaks the
rule of keys and one of timestamps counts as one without a key. One bad timestamp makes the whole batch
INVALID_TIMESTAMP; otherwise it is INVALID_RECORD.

The compiled check is enough to refuse a batch. Only the answer to the producer needs the list of records, so the list
is made separately, by a walk in plain Python that may run on a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from broker.log.log_config import LOG_APPEND_TIME, MAX_LONG, LogConfig
from kafkalog.protocol.errors import InvalidRecordError, InvalidTimestampError
from kafkalog.records.batch import MAGIC, NO_TIMESTAMP, BatchHeader, read_header
from kafkalog.records.compression import Codec
from kafkalog.records.validate import sizes_and_timestamps

_SHOWN = 3
"""The number of record errors that the message of the whole batch repeats, as in Kafka."""


class RecordError(NamedTuple):
    """Name one record by its index in the batch, and say what is wrong with it."""

    batch_index: int
    message: str


@dataclass(frozen=True, slots=True)
class RecordRules:
    """Hold what a topic requires of each record at one time."""

    require_keys: bool
    """True if each record must have a key."""
    earliest: int | None
    """The least timestamp in ms; None if any timestamp is accepted."""
    latest: int | None
    """The greatest timestamp in ms; None if any timestamp is accepted."""
    label: str
    """The partition's name, for messages."""
    stored_codec: str | None
    """The `compression.type` of a topic that stores v2, else None."""
    is_policy_known: bool = True
    """False if the topic's `cleanup.policy` cannot be read."""

    @classmethod
    def of(cls, config: LogConfig, now_ms: int, label: str, *, from_client: bool) -> RecordRules:
        """Return the rules of a topic with `config` at the time `now_ms`."""
        by_producer = config.message_timestamp_type != LOG_APPEND_TIME
        before = config.message_timestamp_before_max_ms
        # Without a limit the least timestamp is accepted, too, although it is further from now.
        earliest = now_ms - before if before < MAX_LONG else -MAX_LONG - 1
        return cls(
            config.requires_keys and from_client,
            earliest if by_producer else None,
            min(now_ms + config.message_timestamp_after_max_ms, MAX_LONG) if by_producer else None,
            label,
            config.compression_type if config.message_format == MAGIC else None,
            config.is_policy_known,
        )

    def takes_timestamp(self, timestamp: int, *, is_append_time: bool = False) -> bool:
        """Return whether a record may have `timestamp`.

        A record without a timestamp is accepted, unless its batch claims that a broker set it (`is_append_time`).
        """
        if self.earliest is None or self.latest is None or timestamp == NO_TIMESTAMP:
            return not is_append_time
        return self.earliest <= timestamp <= self.latest

    def takes_all_between(self, least: int, most: int, *, is_append_time: bool = False) -> bool:
        """Return whether all records with timestamps from `least` to `most` are accepted."""
        if is_append_time:
            # All records have the timestamp of the batch.
            return self.takes_timestamp(most, is_append_time=True)
        if not (self.takes_timestamp(least) and self.takes_timestamp(most)):
            return False
        # If some records have no timestamp, the least timestamp of the others is not known.
        return least != NO_TIMESTAMP or most == NO_TIMESTAMP or self.earliest is None or self.earliest <= NO_TIMESTAMP

    def rejection(
        self, records: Iterable[tuple[bool, int]], *, is_append_time: bool = False
    ) -> InvalidRecordError | InvalidTimestampError | None:
        """Return the error of a batch, or None, given whether each record has a key, and its timestamp."""
        lacks_key = False
        for has_key, timestamp in records:
            if self.require_keys and not has_key:
                lacks_key = True
            elif not self.takes_timestamp(timestamp, is_append_time=is_append_time):
                return RejectedTimestampsError(self)
        return RejectedRecordsError(self) if lacks_key else None

    def _lacking_key(self) -> str:
        if self.is_policy_known:
            return f"Compacted topic cannot accept message without key in topic partition {self.label}"
        return (
            f"The cleanup.policy of topic partition {self.label} cannot be read. Until the topic's cleanup.policy, or "
            "the broker's log.cleanup.policy, is set anew, the topic accepts no message without a key"
        )

    def record_errors(self, batch: memoryview, most: int) -> list[RecordError]:
        """Return the first `most` records of a whole and valid v2 `batch` that break a rule."""
        found: list[RecordError] = []
        header = read_header(batch)
        is_append_time = header.is_log_append_time
        for index, (key_size, value_size, timestamp) in enumerate(sizes_and_timestamps(batch)):
            if len(found) >= most:
                break
            if self.require_keys and key_size < 0:
                message = self._lacking_key()
            elif not self.takes_timestamp(timestamp, is_append_time=is_append_time):
                message = (
                    self._wrong_type(header, index, key_size, value_size)
                    if self.earliest is None or timestamp == NO_TIMESTAMP
                    else f"Timestamp {timestamp} of message with offset {index} is out of range. "
                    f"The timestamp should be within [{self.earliest}, {self.latest}]"
                )
            else:
                continue
            found.append(RecordError(index, message))
        return found

    def _wrong_type(self, header: BatchHeader, index: int, key_size: int, value_size: int) -> str:
        """Return Kafka's message for a record of a batch of LogAppendTime, with Kafka's text for the record."""
        # Kafka has only the sizes at hand, -1 for null, where it takes over the compressed records as they are.
        is_partial = header.codec is not Codec.NONE and self.stored_codec in ("producer", header.codec.name.lower())
        kind, least = ("PartialDefaultRecord", -1) if is_partial else ("DefaultRecord", 0)
        record = (
            f"{kind}(offset={index}, timestamp={header.max_timestamp}, key={max(least, key_size)} bytes, "
            f"value={max(least, value_size)} bytes)"
        )
        return f"Invalid timestamp type in message {record}. Producer should not set timestamp type to LogAppendTime."


class RejectedRecordsError(InvalidRecordError):
    """A batch has records without a key, and its topic is compacted.

    Attributes:
        rules: they find the records at fault.
    """

    def __init__(self, rules: RecordRules) -> None:
        super().__init__(f"One or more records sent to {rules.label} have been rejected, for they have no key")
        self.rules = rules

    def describe(self, found: list[RecordError]) -> str:
        """Return the message for the whole batch, once its records have been found."""
        if not found:
            return self.message
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in found[:_SHOWN])
        return (
            f"One or more records have been rejected due to {len(found)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )


class RejectedTimestampsError(InvalidTimestampError):
    """A batch has records whose timestamps lie outside of the topic's bounds, or are said to be a broker's.

    Attributes:
        rules: they find the records at fault.
    """

    def __init__(self, rules: RecordRules) -> None:
        super().__init__("One or more records have been rejected due to invalid timestamp")
        self.rules = rules

    def describe(self, found: list[RecordError]) -> str:
        """Return the message for the whole batch."""
        return self.message

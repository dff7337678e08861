"""Errors of a consumer, besides those of `kafkalog.client.errors` and those that brokers report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalog.client.errors import ClientError
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import OffsetOutOfRangeError
from kafkalog.records.errors import RecordsError


class WakeupError(ClientError):
    """`Consumer.wakeup` was called. The interrupted call has not changed positions."""


class CommitFailedError(ClientError):
    """The commit is impossible: the group has gone on without this member, and other members have its partitions now.

    The member did not poll for longer than `max.poll.interval.ms`, sent no heartbeat for `session.timeout.ms`, or was
    removed (`kafkalog groups remove-members`).
    """


class RetriableCommitFailedError(ClientError):
    """An asynchronous commit failed with a retriable error, which is `__cause__`; another commit may succeed."""

    retriable = True


class NoOffsetForPartitionError(ClientError):
    """Partitions have no committed offset, and `auto.offset.reset` is none."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(str(tp) for tp in sorted(self.partitions))
        super().__init__(f"no offset is committed for {names}, and auto.offset.reset is none: seek, or commit one")


class PositionOutOfRangeError(OffsetOutOfRangeError):
    """The log does not have the position, and `auto.offset.reset` is none.

    Attributes:
        tp: The partition.
        offset: The position.
    """

    def __init__(self, tp: TopicPartition, offset: int, message: str) -> None:
        super().__init__(message)
        self.tp = tp
        self.offset = offset


class LogTruncationError(ClientError):
    """The log was truncated below the position, and `auto.offset.reset` is none (KIP-320).

    It is raised until a `seek`.

    Attributes:
        positions: Where the consumer was.
        divergent: The offsets at which the leader's log differs from what was read, where they are known. They are safe
            to `seek` to.
    """

    def __init__(self, positions: Mapping[TopicPartition, int], divergent: Mapping[TopicPartition, OffsetAndMetadata]):
        self.positions = dict(positions)
        self.divergent = dict(divergent)
        where = ", ".join(f"{tp} at offset {offset}" for tp, offset in sorted(self.positions.items()))
        super().__init__(f"the log was truncated below the position: {where}; auto.offset.reset is none")


class UnreadableBatchError(ClientError, RecordsError):
    """The bytes in the log of `tp` at `offset` are not a record batch; `__cause__` says why.

    All records before them were handed out, and the position stays there: `seek` past it to continue.
    """

    def __init__(self, tp: TopicPartition, offset: int, cause: Exception) -> None:
        self.tp = tp
        self.offset = offset
        super().__init__(
            f"partition {tp} at offset {offset}: a batch that cannot be read: {cause}; seek past it to go on"
        )

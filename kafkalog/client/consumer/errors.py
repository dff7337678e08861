"""What can go wrong in a consumer, besides `kafkalog.client.errors` and the errors that brokers report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalog.client.errors import ClientError
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.records.errors import RecordsError


class WakeupError(ClientError):
    """`Consumer.wakeup` was called; the call that it interrupted has had no effect on positions."""


class CommitFailedError(ClientError):
    """The commit cannot be done: the group has gone on without this member, and others have its partitions now.

    It was not polled for longer than ``max.poll.interval.ms``, or not heard of for ``session.timeout.ms``.
    """


class RetriableCommitFailedError(ClientError):
    """An asynchronous commit failed in a way that another commit may not; ``__cause__`` says how."""

    retriable = True


class NoOffsetForPartitionError(ClientError):
    """Partitions have no committed offset, and ``auto.offset.reset`` is none."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(str(tp) for tp in sorted(self.partitions))
        super().__init__(f"no offset is committed for {names}, and auto.offset.reset is none: seek, or commit one")


class LogTruncationError(ClientError):
    """The log was cut below the position, and ``auto.offset.reset`` is none (KIP-320). It comes again until a `seek`.

    ``positions`` are where the consumer stood; ``divergent`` where the log that it read ends in the leader's, as far as
    that is known: a safe place to `seek` to.
    """

    def __init__(self, positions: Mapping[TopicPartition, int], divergent: Mapping[TopicPartition, OffsetAndMetadata]):
        self.positions = dict(positions)
        self.divergent = dict(divergent)
        where = ", ".join(f"{tp} at offset {offset}" for tp, offset in sorted(self.positions.items()))
        super().__init__(f"the log was truncated below the position: {where}; auto.offset.reset is none")


class UnreadableBatchError(ClientError, RecordsError):
    """What the log of ``tp`` has at ``offset`` is no record batch; ``__cause__`` says why.

    Everything before it was handed out, and the position stays: `seek` past it to go on.
    """

    def __init__(self, tp: TopicPartition, offset: int, cause: Exception) -> None:
        self.tp = tp
        self.offset = offset
        super().__init__(
            f"partition {tp} at offset {offset}: a batch that cannot be read: {cause}; seek past it to go on"
        )

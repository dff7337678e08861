"""Hold partitions at batches that the target refuses.

The batch is too large for the topic in the target, has no key for a compacted one, or a time that it does not allow.
What comes before the batch is mirrored. The batch itself is tried again alone: no other partition's records are in its
transaction. If several batches of the source were joined into the refused one, they are sent one by one at once: the
target takes each, or refuses one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NamedTuple, TypeGuard

from kafkalog.client.errors import ClientError, is_retriable
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.held import HeldPartitions
from kafkalog.mirror.topics.selection import NameFilter
from kafkalog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

REFUSALS = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The errors of one batch, which say nothing of other partitions. A missing right is not among them. It ends the
mirror, as it ends the task of MirrorMaker 2."""
_REMEDIES = {
    ErrorCode.MESSAGE_TOO_LARGE: ("Set a larger", "max.message.bytes"),
    ErrorCode.RECORD_LIST_TOO_LARGE: ("Set a larger", "segment.bytes"),
    ErrorCode.INVALID_RECORD: ("If records lack keys, change", "cleanup.policy"),
    ErrorCode.INVALID_TIMESTAMP: ("Change", "message.timestamp.before.max.ms and message.timestamp.after.max.ms"),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ("Change", "compression.type"),
}
_ANY_REMEDY = "Change", "the configuration"


class RefusedBatch(NamedTuple):
    """A batch that the target refuses."""

    offset: int
    """The offset of its first record in the source."""
    next_offset: int
    joined: bool
    """True if it has several batches of the source."""
    error: KafkaError | ClientError
    """The target's error, or a retriable one with which the batch could not be sent for a time."""


class Undone(NamedTuple):
    """The work that a task has given up because of refused batches."""

    refused: dict[TopicPartition, RefusedBatch]
    positions: dict[TopicPartition, OffsetAndMetadata]
    """The positions at which partitions are to be read again."""


def is_refusal(error: Exception | None) -> TypeGuard[KafkaError]:
    """Tell whether an error of a batch is the target's about this batch itself."""
    # With a cause, it is the error of another batch of the transaction.
    return isinstance(error, KafkaError) and error.code in REFUSALS and error.__cause__ is None


class RefusedBatches(HeldPartitions):
    """The partitions that are held at a batch that the target refuses. They stay so while workers come and go."""

    def __init__(self) -> None:
        super().__init__()
        self._singly: dict[TopicPartition, int] = {}
        """The offsets up to which batches are not joined."""

    def begin_again(self) -> None:
        """Note that partitions are assigned anew, and read from their positions on."""
        for each in self._held.values():
            each.stopped = False

    def forget(self, topics: Collection[str]) -> None:
        """Forget the partitions of topics that were deleted."""
        for noted in (self._held, self._singly):
            for tp in [tp for tp in noted if tp.topic in topics]:
                del noted[tp]

    def note(
        self, tp: TopicPartition, batch: RefusedBatch, target: str, now: float, copied: NameFilter | None = None
    ) -> bool:
        """Hold a partition at a batch that the topic `target` refuses; name it, and the remedy, in the log.

        Returns False if the batch has several of the source, which are sent one by one instead. `copied` allows the
        configurations that the mirror copies from the source.
        """
        if batch.joined:
            self._singly[tp] = batch.next_offset
            logger.info("%s: batches from offset %d on are sent one by one: %s", tp, batch.offset, batch.error)
            return False
        pause = self.hold(tp, batch.offset, now, stopped=False)
        if is_retriable(batch.error) and not is_refusal(batch.error):
            logger.warning(
                "%s is held at offset %d of the source, because the target does not take the record batch there now, "
                "and tried again in %.0f s: %s. Others are mirrored",
                *(tp, batch.offset, pause, batch.error),
            )
            return True
        code = batch.error.code if isinstance(batch.error, KafkaError) else ErrorCode.NONE
        what, name = _REMEDIES.get(code, _ANY_REMEDY)
        is_copied = copied is not None and copied.allows(name.partition(" ")[0])
        where = f"{tp.topic} in the source, which is copied to {target}" if is_copied else f"{target} in the target"
        logger.warning(
            "%s is held at offset %d of the source, because the target refuses the record batch there, and tried again "
            "in %.0f s: %s. Others are mirrored. %s %s of topic %s, or delete the records before the next batch in the "
            "source (kafkalog delete-records)",
            tp,
            batch.offset,
            pause,
            batch.error,
            what,
            name,
            where,
        )
        return True

    def goes_singly(self, tp: TopicPartition) -> bool:
        """Tell whether batches of a partition must not be joined."""
        return tp in self._held or tp in self._singly

    def must_stop(self, tp: TopicPartition, batch: MirroredBatch) -> bool:
        """Tell whether a batch is the refused one, or one after it, and must wait."""
        held = self._held.get(tp)
        return held is not None and not held.trying and batch.next_offset > held.offset

    def is_tried(self, tp: TopicPartition, batch: MirroredBatch) -> bool:
        """Tell whether a batch is the refused one, which is sent again now."""
        held = self._held.get(tp)
        return held is not None and held.trying and batch.next_offset > held.offset

    def is_held(self, tp: TopicPartition) -> bool:
        """Tell whether a partition is held."""
        return tp in self._held

    def stop(self, tp: TopicPartition) -> None:
        """Note that a partition was read up to the refused batch."""
        self._held[tp].stopped = True

    def read_on(self, tp: TopicPartition) -> bool:
        """Note that a partition is read again from an earlier position on; return whether it was stopped."""
        held = self._held.get(tp)
        if held is None or not held.stopped:
            return False
        held.stopped = False
        return True

    def release(self, tp: TopicPartition, position: int) -> bool:
        """Forget a partition that is held before `position`, which the target has; return whether it was."""
        if tp in self._singly and self._singly[tp] <= position:
            del self._singly[tp]
        return super().release(tp, position)

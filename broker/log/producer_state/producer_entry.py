"""The state of one producer id in a partition: its epoch, its last batches, its open transaction."""

from __future__ import annotations

from typing import NamedTuple

RETAINED_BATCHES = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MASK = (1 << 31) - 1


class BatchMetadata(NamedTuple):
    """Describe one appended batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence number of its first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        """Offset of its first record."""
        return self.last_offset - self.offset_delta


class UnverifiedBatch(NamedTuple):
    """Describe a batch that was refused because its transaction could not be verified."""

    epoch: int
    first_sequence: int
    seen_ms: int


class ProducerEntry:
    """Hold the state of one producer id.

    Attributes:
        batches: oldest first, at most RETAINED_BATCHES, all of the current epoch.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "transaction_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1
        self.batches: list[BatchMetadata] = []
        self.next_sequence = 0

    def add_batch(self, epoch: int, last_sequence: int, last_offset: int, delta: int, timestamp: int) -> None:
        """Remember an appended batch."""
        self.set_epoch(epoch)
        batches = self.batches
        batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp))
        if len(batches) > RETAINED_BATCHES:
            del batches[0]
        self.next_sequence = (last_sequence + 1) & SEQUENCE_MASK
        self.last_timestamp = timestamp

    def set_epoch(self, epoch: int) -> None:
        """Take over an epoch; forget the batches of another one."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def duplicate_of(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the remembered batch with exactly this sequence range, or None."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

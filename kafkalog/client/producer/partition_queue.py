"""The queue of one partition: its batches in order, and its place in the producer's sequence."""

from __future__ import annotations

from collections import deque

from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NO_LEADER = -1


class PartitionQueue:
    """The batches of one partition, and its place in the producer's sequence."""

    __slots__ = (
        "begun",
        "in_flight",
        "last_error",
        "leader",
        "next_sequence",
        "open",
        "partition",
        "producer_epoch",
        "producer_id",
        "ready",
        "reset",
        "serial",
        "topic",
        "used_at",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leader = NO_LEADER
        self.open: ProducerBatch | None = None
        self.ready: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.serial = 0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.begun = False
        """True if the broker has acknowledged a batch of the sequence."""
        self.reset = False
        """True if the broker's sequence and this one differ, so that a new epoch must begin once nothing is in
        flight."""
        self.last_error: Exception | None = None
        """The error that has kept the last batch from being written; None after one was written."""
        self.used_at = float("-inf")
        """The time when the last batch was begun (`time.monotonic`)."""

    @property
    def has_batches(self) -> bool:
        """Return whether some batch waits or is in flight; the lock is held."""
        return self.open is not None or bool(self.ready or self.in_flight)

    def has_before(self, batch: ProducerBatch) -> bool:
        """Tell whether some batch of the partition before this one is not done yet."""
        place = (batch.serial, batch.position)
        return any((each.serial, each.position) < place for each in (*self.in_flight, *self.ready) if not each.done)

    def begin_sequence(self) -> None:
        """Continue with sequence number 0, under another id or epoch."""
        self.next_sequence = 0
        self.begun = False

    def acknowledge(self, batch: ProducerBatch) -> None:
        """Note that the broker has appended a batch."""
        self.last_error = None
        if (batch.producer_id, batch.producer_epoch) == (self.producer_id, self.producer_epoch):
            self.begun = True

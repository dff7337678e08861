"""One partition that is followed: from where it is fetched next, and when."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from broker.metadata.model import NO_TOPIC_ID
from broker.replica.divergence import UNDEFINED
from broker.replica.partition import Partition

FIRST_PAUSE_S = 0.05
"""The pause after a first error. A new leader that has not heard of its role yet is heard of again soon."""


@dataclass(slots=True, eq=False)
class Following:
    """The state of one partition that is followed.

    A new leader epoch makes a new object, so that responses to requests of earlier epochs are not used.
    """

    partition: Partition
    epoch: int
    """The leader epoch in which it is followed."""
    offset: int
    """The next offset to fetch: the log end, unless the log has to be truncated first."""
    fetched_epoch: int
    """The epoch of the last record here, or UNDEFINED."""
    truncating: bool
    """True if the log has to be made to agree with the leader's before anything is fetched."""
    delayed_until: float = 0.0
    """The time from which it may be asked for again after an error, by the loop's clock."""
    lag: int | None = None
    """The number of records it lacked below the leader's high watermark at the last answer; None before the first."""
    pause: float = 0.0
    """The length of the last pause since it was fetched."""
    trouble: str = ""
    """The reason why it is not fetched at present; empty if it is."""
    has_failed: bool = False
    """True if its log is damaged, so that it is not fetched any more in this leader epoch."""

    @classmethod
    def begin(cls, partition: Partition, *, truncates_on_fetch: bool) -> Following:
        """Follow the partition's leader from now on.

        A log with leader epochs is fetched from its end where the leader tells by its answer that it has diverged. In
        all other cases only what lies below the high watermark is known to be the leader's.
        """
        log = partition.log
        if truncates_on_fetch and log.latest_epoch != UNDEFINED:
            return cls(partition, partition.leader_epoch, log.log_end_offset, log.latest_epoch, truncating=False)
        return cls(partition, partition.leader_epoch, log.high_watermark, UNDEFINED, truncating=True)

    @property
    def topic_id(self) -> uuid.UUID:
        """The id by which the topic is asked for; NO_TOPIC_ID if it has to be asked for by its name."""
        return (self.partition.log.topic_id if self.partition.is_told_by_id else None) or NO_TOPIC_ID

    @property
    def is_current(self) -> bool:
        """Return whether the partition is still followed in this epoch, and its log can be used."""
        partition = self.partition
        return not partition.is_leader and partition.leader_epoch == self.epoch and partition.log.offline is None

    def is_due(self, now: float) -> bool:
        return not self.truncating and not self.has_failed and self.delayed_until <= now

    @property
    def may_be_held_back(self) -> bool:
        """Return whether it waits while throttled replicas use more than their rate: one that is in sync does not."""
        return self.partition.throttled_follower and self.lag != 0

    def is_unproven(self, leaders_start: int) -> bool:
        """Return whether the first answer of the leader shows that it has nothing of what is in the log here.

        Where its log begins, its epochs begin, so that it cannot tell whether older records are those that it had.
        They may have been lost elsewhere. They are below the start of the log soon, but would be back after a crash
        before the new start is on the disk.
        """
        log = self.partition.log
        return self.lag is None and log.log_start_offset < log.log_end_offset <= leaders_start

    def delay(self, now: float, longest: float, why: str) -> bool:
        """Ask for it again after a pause of at most `longest` seconds, which doubles with each error in a row.

        Returns:
            Whether the reason is another one than before. One that has failed keeps the reason of that.
        """
        if self.has_failed:
            return False
        is_news = why != self.trouble
        self.pause = min(max(2 * self.pause, FIRST_PAUSE_S), longest)
        self.delayed_until, self.trouble = now + self.pause, why
        return is_news

    def fail(self, why: str) -> None:
        """Fetch it no more in this leader epoch, as Kafka does with a partition that it marks as failed."""
        self.trouble, self.has_failed = why, True

    def caught(self, leader_high_watermark: int) -> None:
        """Note an answer that was taken over."""
        log = self.partition.log
        self.offset = log.log_end_offset
        self.fetched_epoch = log.latest_epoch
        self.lag = max(0, leader_high_watermark - self.offset)
        self.trouble, self.pause = "", 0.0

    def truncated(self, *, done: bool) -> None:
        """Note that the log was truncated; `done` tells whether it agrees with the leader's now."""
        log = self.partition.log
        self.offset = log.log_end_offset
        self.fetched_epoch = log.latest_epoch
        self.truncating = not done

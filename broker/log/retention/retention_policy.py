"""Count the segments that retention deletes. Pure: segments in, a number out.

Segments are deleted oldest first, without gaps, and never past the high watermark. Segments before the log start offset
are always deleted. With `cleanup.policy=delete`, the retention policy decides how many more. The default policy is
Apache Kafka's: it deletes segments whose largest timestamp is older than `retention.ms`, and segments without which
the log still holds `retention.bytes`. `kafkalog.log.retention.policy.class` names another policy; see
`RetentionPolicy`.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Sequence
from typing import Protocol

from broker.log.log_config import LogConfig
from broker.log.read.segment_times import Unread, unknown_largest
from broker.log.segment.segment import Segment


class SegmentFacts:
    """Describe a segment to a retention policy.

    Attributes:
        base_offset: the offset of its first record.
        next_base_offset: the offset at which the next segment begins; for the active one, the log end offset.
        size: bytes of its batches.
        is_active: whether it is the segment that takes appends. It is never deleted while it is empty.
    """

    __slots__ = ("_segment", "base_offset", "is_active", "next_base_offset", "size")

    def __init__(self, segment: Segment, next_base_offset: int, is_active: bool) -> None:
        self._segment = segment
        self.base_offset = segment.base_offset
        self.next_base_offset = next_base_offset
        self.size = segment.size
        self.is_active = is_active

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of its records in ms, or the time of the file's last change if no record has one."""
        return self._segment.retention_timestamp()


class RetentionPolicy(Protocol):
    """Decide how long segments are kept.

    The broker makes an instance of the configured class, without arguments, when it starts. It calls `deletable` every
    `log.retention.check.interval.ms` for each log with `cleanup.policy=delete`. Where more than 100 segments are to go,
    it deletes 100, lets others have their turn, and calls it again. The call is made on the event loop, so it must not
    block. A worker reads the largest timestamps before. Exceptions are logged, and nothing of that log is deleted.
    """

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        """Return how many of `segments`, from the oldest on, are to be deleted.

        Segments past the high watermark stay in any case.

        Args:
            segments: of one log, oldest first, the active one last. Segments before the log start offset are left out,
                because they are deleted anyway.
            config: the topic's settings.
            now_ms: milliseconds since the epoch.
        """


class TimeAndSize:
    """Apply `retention.ms` and `retention.bytes`, as Apache Kafka does."""

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        """See `RetentionPolicy`."""
        count = 0
        if config.retention_bytes >= 0:
            surplus = sum(segment.size for segment in segments) - config.retention_bytes
            while count < len(segments) and surplus >= segments[count].size:
                surplus -= segments[count].size
                count += 1
        if config.retention_ms >= 0:
            oldest = now_ms - config.retention_ms
            while count < len(segments) and segments[count].largest_timestamp < oldest:
                count += 1
        return count


TIME_AND_SIZE = TimeAndSize()


class RetentionPolicyError(Exception):
    """The configured retention policy cannot be used. The message names it and says why."""


def load_policy(name: str | None) -> RetentionPolicy:
    """Make the policy that `module:Class` names; the default policy for None.

    Raises:
        RetentionPolicyError: there is no such class, it cannot be made, or it is no policy.
    """
    if not name:
        return TIME_AND_SIZE
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise RetentionPolicyError(f"{name} is not of the form module:Class")
    try:
        policy = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise RetentionPolicyError(
            f"{name} cannot be loaded ({type(error).__name__}: {error}): is the module on the broker's PYTHONPATH?"
        ) from error
    if not callable(getattr(policy, "deletable", None)):
        raise RetentionPolicyError(f"{name} has no method deletable(segments, config, now_ms)")
    return policy  # type: ignore[no-any-return]


def deletable(
    segments: Sequence[Segment], config: LogConfig, *, log_start_offset: int, log_end_offset: int, high_watermark: int,
    now_ms: int, policy: RetentionPolicy = TIME_AND_SIZE,
) -> int:  # fmt: skip
    """Return how many of `segments`, from the first on, are to be deleted.

    The active segment, which is the last one, may be among them, unless it is empty.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    allowed = 0
    while allowed < len(segments) and ends[allowed] <= high_watermark:
        if allowed + 1 == len(segments) and segments[allowed].size == 0:
            break
        allowed += 1
    count = 0
    while count < min(allowed, len(segments) - 1) and ends[count] <= log_start_offset:
        count += 1
    if not config.delete or config.is_held or count == allowed:
        return count
    facts = [
        SegmentFacts(segments[at], ends[at], is_active=at + 1 == len(segments)) for at in range(count, len(segments))
    ]
    return count + min(max(policy.deletable(facts, config, now_ms), 0), allowed - count)


def unread(
    segments: Sequence[Segment], config: LogConfig, now_ms: int, policy: RetentionPolicy,
    unreadable: Container[Segment] = (),
) -> Unread:  # fmt: skip
    """Return the segments whose largest timestamps have to be read before `deletable` is called.

    Args:
        unreadable: segments that were read in vain; they are left out.
    """
    if not config.delete or (policy is TIME_AND_SIZE and config.retention_ms < 0):
        return Unread()
    until = now_ms - config.retention_ms if policy is TIME_AND_SIZE else None
    return Unread(unknown_largest(segments, until, unreadable), until)

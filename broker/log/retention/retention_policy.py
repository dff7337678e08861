"""Which segments are old enough, or too many, to go. Pure: segments in, a number out.

Segments go oldest first and without gaps, never past the high watermark: those that lie before the log start offset
always, and with ``cleanup.policy=delete`` as many as the retention policy says. The policy is by default Apache
Kafka's: those whose largest timestamp is older than ``retention.ms``, and those without which the log still holds
``retention.bytes``. Another is named by ``kafkalog.log.retention.policy.class``; see `RetentionPolicy`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from broker.log.log_config import LogConfig
from broker.log.segment.segment import Segment


class SegmentFacts:
    """A segment as a retention policy sees it.

    Attributes:
        base_offset: of its first record.
        next_base_offset: where the next segment begins; of the active one, the log end offset.
        size: bytes of its batches.
        is_active: whether it is the one that is appended to; an empty one is never deleted.
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
        """Largest timestamp of its records in ms; of one whose records have none, when its file changed last.

        The first look at a segment reads its time index.
        """
        return self._segment.retention_timestamp()


class RetentionPolicy(Protocol):
    """How long segments are kept. A class of one's own is made without arguments, when the broker starts.

    It is asked on the broker's event loop, each ``log.retention.check.interval.ms`` for every log with
    ``cleanup.policy=delete``, so it must not block. What it raises is logged, and nothing of that log is deleted.
    """

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        """How many of ``segments``, oldest first, are to go. Those past the high watermark stay whatever it says.

        Args:
            segments: of one log, oldest first, the active one last; those before the log start offset are not among
                them, for they go anyway.
            config: of the topic.
            now_ms: milliseconds since the epoch.
        """


class TimeAndSize:
    """``retention.ms`` and ``retention.bytes``, as in Apache Kafka."""

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
    """The class that is to decide about retention cannot be used; the message names it and says why."""


def load_policy(name: str | None) -> RetentionPolicy:
    """The policy of ``module:Class``; None is the default.

    Raises:
        RetentionPolicyError: there is none of that name, it cannot be made, or it is no policy.
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
    """How many of ``segments``, from the first on, are to be deleted; the active one, the last, may be among
    them.

    An empty active segment never is.
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
    if not config.delete or count == allowed:
        return count
    facts = [
        SegmentFacts(segments[at], ends[at], is_active=at + 1 == len(segments)) for at in range(count, len(segments))
    ]
    return count + min(max(policy.deletable(facts, config, now_ms), 0), allowed - count)

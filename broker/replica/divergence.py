"""The offset where a leader's and a follower's logs diverge, by the ends of leader epochs (KIP-101, KIP-279, KIP-595).

Pure: `Partition` calls these functions with what its log knows, and truncates or answers as they say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog.protocol.errors import OffsetOutOfRangeError

UNDEFINED = -1
"""The value of an unknown epoch or offset."""

EndOffsetFor = Callable[[int], tuple[int, int]]
"""Finds the largest known epoch up to the given one, and the offset where it ends (`Log.end_offset_for_epoch`)."""


class Truncation(NamedTuple):
    """A truncation of a follower's log, to agree with its leader's."""

    offset: int
    """Records at or after it are dropped."""
    done: bool
    """True if the logs agree afterwards; otherwise the follower has to ask the leader again."""


def truncation(
    leader_epoch: int,
    leader_end: int,
    log_end: int,
    high_watermark: int,
    end_offset_for: EndOffsetFor,
) -> Truncation:
    """Return where to truncate, given the leader's answer about this log's last epoch (KIP-101, KIP-279).

    Args:
        leader_epoch, leader_end: the largest epoch, up to the one asked for, that the leader knows, and the offset
            where it ends there; UNDEFINED if the leader knows none, or speaks a version without epochs.
        log_end: the log end offset here.
        high_watermark: the high watermark here.
        end_offset_for: finds the same epoch and offset in this log.
    """
    if leader_end == UNDEFINED:
        # Only the records below the high watermark are known to be in the leader's log.
        return Truncation(min(high_watermark, log_end), True)
    if leader_epoch == UNDEFINED:
        return Truncation(min(leader_end, log_end), True)
    own_epoch, own_end = end_offset_for(leader_epoch)
    if own_end == UNDEFINED:
        return Truncation(min(leader_end, log_end), True)
    if own_epoch != leader_epoch:
        # The leader has that epoch but this log does not: ask again with this log's previous epoch.
        return Truncation(min(own_end, log_end), False)
    return Truncation(min(own_end, leader_end, log_end), True)


def divergence(
    fetched_epoch: int, fetch_offset: int, log_start: int, end_offset_for: EndOffsetFor
) -> tuple[int, int] | None:
    """Return where a follower's log diverges from the leader's.

    Args:
        fetched_epoch, fetch_offset: the follower has records of this epoch before this offset.
        log_start: the log start offset of the leader.
        end_offset_for: finds epochs and their ends in the leader's log.

    Returns:
        The largest epoch up to `fetched_epoch` in the leader's log and the offset where it ends, to which the follower
        has to truncate before it fetches again; None if the logs agree.

    Raises:
        OffsetOutOfRangeError: the offset is before the start of the leader's log, or no epoch is known.
    """
    epoch, end = end_offset_for(fetched_epoch)
    if epoch == UNDEFINED or end < 0 or fetch_offset < log_start:
        raise OffsetOutOfRangeError
    return (epoch, end) if epoch < fetched_epoch or end < fetch_offset else None

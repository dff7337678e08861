"""In-sync replicas, as Kafka 3.9 decides about them. Values only; the time is passed in.

A follower is in sync while it has caught up with the leader's log end offset within ``replica.lag.time.max.ms``. Its
position is the offset of its last fetch: what lies before that is in its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

UNKNOWN_OFFSET = -1
LONG_AGO_MS = -(1 << 62)
"""Before any time of the clock, which may have begun to count a moment ago."""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """What the leader knows of a follower (Kafka's ``ReplicaState``).

    Attributes:
        log_start_offset, log_end_offset: of the follower's log, UNKNOWN_OFFSET before its first fetch.
        last_fetch_leader_end: the leader's log end offset at the last fetch.
        last_fetch_ms: when the last fetch came.
        last_caught_up_ms: the latest time at which the follower had everything that the leader had.
    """

    log_start_offset: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end: int = UNKNOWN_OFFSET
    last_fetch_ms: int = LONG_AGO_MS
    last_caught_up_ms: int = LONG_AGO_MS

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> FollowerState:
        """The state after a fetch from ``offset`` that came when the leader's log ended at ``leader_end``.

        A follower that always fetches a little behind the leader's end, because small batches keep coming, has caught
        up with the end of its previous fetch. Comparing it with the present end alone would push it out.
        """
        if offset >= leader_end:
            caught_up = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            caught_up = max(self.last_caught_up_ms, self.last_fetch_ms)
        else:
            caught_up = self.last_caught_up_ms
        return FollowerState(log_start_offset, offset, max(leader_end, self.last_fetch_leader_end), now_ms, caught_up)

    def elected(self, leader_end: int, now_ms: int, *, in_sync: bool, again: bool) -> FollowerState:
        """The state at the beginning of a leader epoch.

        Args:
            in_sync: the follower is in the ISR of the new epoch.
            again: the leader led the previous epoch too, so that the follower's position is still known.
        """
        now_if_in_sync = now_ms if in_sync else LONG_AGO_MS
        if not again:
            return FollowerState(last_caught_up_ms=now_if_in_sync)
        return replace(
            self,
            last_fetch_leader_end=leader_end,
            last_fetch_ms=now_if_in_sync,
            last_caught_up_ms=now_if_in_sync,
        )

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has everything, however long ago it fetched, or had everything a short time ago."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms


def out_of_sync(
    isr: Iterable[int],
    leader: int,
    followers: Mapping[int, FollowerState],
    leader_end: int,
    now_ms: int,
    max_lag_ms: int,
) -> frozenset[int]:
    """The members of the ISR that have to leave it: stuck or slow for longer than ``max_lag_ms``, or unknown."""
    return frozenset(
        replica
        for replica in isr
        if replica != leader
        and (replica not in followers or not followers[replica].is_caught_up(leader_end, now_ms, max_lag_ms))
    )


def may_join(follower: FollowerState, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower that is alive may enter the ISR.

    It must have everything below the high watermark. It must also have reached the leader's present epoch: what lies
    between the new leader's high watermark and its log end may have been acknowledged by the leader before it.
    """
    return follower.log_end_offset >= max(high_watermark, epoch_start)


def high_watermark(
    leader_end: int,
    followers: Mapping[int, FollowerState],
    maximal_isr: frozenset[int],
    now_ms: int,
    max_lag_ms: int,
    eligible: frozenset[int] | None = None,
) -> int:
    """The smallest log end offset of the in-sync replicas, and of those that are about to become in-sync.

    A follower outside the ISR that has caught up is waited for. Otherwise a lone leader's high watermark would stay
    ahead of it, and it could never join.

    Args:
        maximal_isr: the ISR together with replicas whose joining is not confirmed yet.
        eligible: followers that may join the ISR, for they are alive; None for all of them.
    """
    smallest = leader_end
    for replica, state in followers.items():
        if state.log_end_offset < smallest and (
            replica in maximal_isr
            or ((eligible is None or replica in eligible) and state.is_caught_up(leader_end, now_ms, max_lag_ms))
        ):
            smallest = state.log_end_offset
    return smallest

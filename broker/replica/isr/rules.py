"""The rules of in-sync replicas, as in Kafka 3.9. Pure functions; the time is an argument.

A follower is in sync while it has caught up with the leader's log end offset within `replica.lag.time.max.ms`. Its
position is the offset of its last fetch: its log contains all records before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1
LONG_AGO_MS = -(1 << 62)
"""Earlier than any time of the clock, which may have started a moment ago."""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """The state of a follower as the leader knows it (Kafka's `ReplicaState`)."""

    log_start_offset: int = UNKNOWN_OFFSET
    """The start of the follower's log, UNKNOWN_OFFSET before its first fetch."""
    log_end_offset: int = UNKNOWN_OFFSET
    """The end of the follower's log, UNKNOWN_OFFSET before its first fetch."""
    last_fetch_leader_end: int = UNKNOWN_OFFSET
    """The leader's log end offset at the last fetch."""
    last_fetch_ms: int = LONG_AGO_MS
    """The time at which the last fetch arrived."""
    last_caught_up_ms: int = LONG_AGO_MS
    """The latest time at which the follower had everything that the leader had."""
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    """The epoch of the follower's registration at its last fetch; UNKNOWN_BROKER_EPOCH if it did not tell."""

    @property
    def is_known(self) -> bool:
        """Return whether the follower has fetched from this leader."""
        return self.log_end_offset != UNKNOWN_OFFSET

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> FollowerState:
        """Return the state after a fetch from `offset` that arrived when the leader's log ended at `leader_end`.

        A follower that always fetches slightly behind the leader's end, because small batches keep arriving, has caught
        up with the end at its previous fetch. If it were compared with the current end alone, it would leave the ISR.
        """
        if offset >= leader_end:
            caught_up = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            caught_up = max(self.last_caught_up_ms, self.last_fetch_ms)
        else:
            caught_up = self.last_caught_up_ms
        end = max(leader_end, self.last_fetch_leader_end)
        return FollowerState(log_start_offset, offset, end, now_ms, caught_up, broker_epoch)

    def stayed(self, at_ms: int) -> FollowerState:
        """Return the state after fetches, the last of them at `at_ms`, that found nothing to fetch."""
        return replace(
            self,
            last_fetch_ms=max(self.last_fetch_ms, at_ms),
            last_caught_up_ms=max(self.last_caught_up_ms, at_ms),
        )

    def elected(self, leader_end: int, now_ms: int, *, in_sync: bool, again: bool) -> FollowerState:
        """Return the state at the beginning of a leader epoch.

        Args:
            in_sync: whether the follower is in the ISR of the new epoch.
            again: whether the leader led the previous epoch too, so that the follower's position is still known.
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
        """Return whether the follower has every record, or had every record less than `max_lag_ms` ago."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms


def described(follower: FollowerState | None, leader_end: int, now_ms: int) -> str:
    """Return what the leader knows of a follower that fell behind, as the rest of a sentence about it."""
    if follower is None:
        return "is not a replica"
    since = follower.last_caught_up_ms
    behind = "has never caught up" if since == LONG_AGO_MS else f"has not caught up for {now_ms - since} ms"
    if follower.log_end_offset == UNKNOWN_OFFSET:
        return f"{behind} and has not fetched in this leader epoch"
    return (
        f"{behind}, lacks {leader_end - follower.log_end_offset} records (its log ends at {follower.log_end_offset}), "
        f"and fetched {now_ms - follower.last_fetch_ms} ms ago"
    )


def out_of_sync(
    isr: Iterable[int],
    leader: int,
    followers: Mapping[int, FollowerState],
    leader_end: int,
    now_ms: int,
    max_lag_ms: int,
) -> frozenset[int]:
    """Return the ISR's members that have to leave: stuck or slow for longer than `max_lag_ms`, or unknown."""
    return frozenset(
        replica
        for replica in isr
        if replica != leader
        and (replica not in followers or not followers[replica].is_caught_up(leader_end, now_ms, max_lag_ms))
    )


def may_join(follower: FollowerState, high_watermark: int, epoch_start: int) -> bool:
    """Return whether a live follower may join the ISR.

    It must have every record below the high watermark. It must also have reached the leader's current epoch: records
    between the new leader's high watermark and its log end may have been acknowledged by the previous leader.
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
    """Return the smallest log end offset of the replicas that are in sync or about to be.

    This includes followers outside the ISR that have caught up. Otherwise a lone leader's high watermark would stay
    ahead of them, and they could never join.

    Args:
        maximal_isr: the ISR and the replicas whose joining the controller has not confirmed yet.
        eligible: the live followers, which may join the ISR; None for all of them.
    """
    smallest = leader_end
    for replica, state in followers.items():
        if state.log_end_offset < smallest and (
            replica in maximal_isr
            or ((eligible is None or replica in eligible) and state.is_caught_up(leader_end, now_ms, max_lag_ms))
        ):
            smallest = state.log_end_offset
    return smallest

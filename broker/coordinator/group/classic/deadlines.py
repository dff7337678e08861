"""Deadlines of a classic group: of sessions, of member ids that were given out, and of the phases of a rebalance."""

from __future__ import annotations

from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.membership import Moment


class Deadlines:
    """The deadlines of a rebalance's phases. Members and unused ids have deadlines of their own.

    Attributes:
        join: when the next generation begins at the latest, on the clock of `Moment.ms`; None is never.
        sync: when members that have not sent SyncGroup are removed, on the same clock.
        wake_at: when to check the deadlines; it may be too early, never too late.
    """

    __slots__ = ("_members", "join", "sync", "wake_at")

    def __init__(self, members: Roster) -> None:
        self._members = members
        self.join: int | None = None
        self.sync: int | None = None
        self.wake_at: int | None = None

    def wait_for_joins(self, until: int) -> None:
        self.join = until
        self.wake_by(until)

    def wait_for_syncs(self, until: int) -> None:
        self.sync = until
        self.wake_by(until)

    def expect_heartbeat(self, member: Member, now: Moment) -> None:
        """Restart the session of a member that has sent a request."""
        member.deadline = deadline = now.ms + member.session_timeout_ms
        if self.wake_at is None or deadline < self.wake_at:
            self.wake_at = deadline

    def wake_by(self, deadline: int) -> None:
        """Make sure that `wake_at` is not later."""
        if self.wake_at is None or deadline < self.wake_at:
            self.wake_at = deadline

    def plan_wake(self) -> None:
        """Compute `wake_at` from all deadlines."""
        deadlines = [member.deadline for member in self._members]
        deadlines += [self.join, self.sync, self._members.pending.next_deadline]
        self.wake_at = min((deadline for deadline in deadlines if deadline is not None), default=None)

"""The time for which a member may believe that its session with ZooKeeper lives.

ZooKeeper ends a session that it has not heard of for the session's time-out; then the partitions of the member are
free, and others take them. A member that is cut off, or was suspended, learns of that only later. But a request that
was answered was heard, so the session lives for a time-out after it was sent, at least. Records are handed out only
that long.
"""

from __future__ import annotations

MARGIN = 0.1
"""The part of the time-out by which a lease ends early, for clocks that run at different speeds."""


class Lease:
    """The lease of one session. Threads may read it while one of them renews it.

    Args:
        timeout: The time-out of the session in seconds, until `grant` names another.

    Attributes:
        timeout: The time-out of the session in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._granted = timeout
        """The least time-out since the last renewal."""
        self._heard_at = float("-inf")
        self._has_ended = False

    def grant(self, timeout: float) -> None:
        """Note the time-out of the session in seconds. If it is shorter, it holds for what was answered before, too.

        A longer one may be that of a new session, of which the member has not heard yet.
        """
        self.timeout = timeout
        self._granted = min(self._granted, timeout)

    def renew(self, sent_at: float) -> None:
        """Note that a request was answered that was sent at this time, in seconds of a monotonic clock."""
        # An answer in a new session says nothing of the partitions that were claimed in the one before.
        if not self._has_ended and sent_at > self._heard_at:
            self._heard_at, self._granted = sent_at, self.timeout

    def end(self) -> None:
        """End the lease, until `begin`: the session is known to have expired."""
        self._has_ended = True
        self._heard_at = float("-inf")

    def begin(self) -> bool:
        """Let the next answer renew the lease: what was fetched in a session before is not handed out any more.

        Return whether it had ended: then others may own what was claimed before.
        """
        had_ended, self._has_ended = self._has_ended, False
        return had_ended

    def holds(self, now: float) -> bool:
        """Return whether the session lives."""
        return now < self._heard_at + self._granted * (1 - MARGIN)

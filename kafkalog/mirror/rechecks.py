"""Look again, at regular times, at what a worker leaves out."""

from __future__ import annotations

from kafkalog.client.errors import ClientError

CHECK_S = 10.0
"""The interval at which what is left out is looked at again, and named in the log."""


class MirrorableAgainError(ClientError):
    """Something that is left out can be mirrored now. A new worker mirrors it."""

    retriable = True


class RecheckTimer:
    """The times at which a worker checks what it leaves out: at once, and then every `CHECK_S`."""

    def __init__(self) -> None:
        self._next_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a check, by `time.monotonic`; if so, the next one is `CHECK_S` later."""
        if now < self._next_at:
            return False
        self._next_at = now + CHECK_S
        return True

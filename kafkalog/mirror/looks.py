"""Look again, at regular times, at what a worker leaves out."""

from __future__ import annotations

from kafkalog.client.errors import ClientError

CHECK_S = 10.0
"""The interval at which what is left out is looked at again, and named in the log."""


class NotLeftOutError(ClientError):
    """Something that is left out could be mirrored now. A new worker mirrors it."""

    retriable = True


class Looks:
    """The times at which one reason to leave something out is looked at: at once, and then every `CHECK_S`."""

    def __init__(self) -> None:
        self._next_at: float | None = None
        self.is_first = True
        """True if the look that is due now is the first one."""

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a look (`now` as of `time.monotonic`); if so, the next one is `CHECK_S` later."""
        if self._next_at is not None and now < self._next_at:
            return False
        self.is_first = self._next_at is None
        self._next_at = now + CHECK_S
        return True

"""Retry calls until a deadline, with growing pauses (KIP-580)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from kafkalog.client.backoff import client_backoff
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, is_retriable
from kafkalog.protocol.errors import UnknownTopicIdError, UnknownTopicOrPartitionError

T = TypeVar("T")
K = TypeVar("K")

UNKNOWN_TOPIC_TRIES = 5
"""A topic that was just created may be unknown to some brokers for a moment. One that is still unknown after this many
tries does not exist. To wait for it until the deadline would only hide a misspelt name."""


class Retry:
    """Compute the pauses between the tries of one call.

    `deadline` is a time of `time.monotonic`; None means `default.api.timeout.ms` from now. Once the event `ended` is
    set, nothing is tried again. `steady` has the pauses in seconds after errors that need no growing ones, because what
    they tell of is over soon.
    """

    def __init__(
        self,
        config: ClientConfig,
        deadline: float | None = None,
        ended: threading.Event | None = None,
        steady: Mapping[type[Exception], float] | None = None,
    ) -> None:
        self.deadline = time.monotonic() + config.default_api_timeout if deadline is None else deadline
        self._backoff = client_backoff(config)
        self._request_timeout = config.request_timeout
        self._steady = steady or {}
        self._tries = 0
        self._growing = 0
        """The number of tries that a growing pause has followed."""
        self._unknown_topic = 0
        self._before = ""
        self._ended = ended

    @property
    def left(self) -> float:
        """Seconds until the deadline, not less than zero."""
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def request_timeout(self) -> float:
        """Seconds that the next request may take: `request.timeout.ms`, or less where the deadline is near."""
        return min(self._request_timeout, max(self.left, 0.001))

    def reset(self) -> None:
        """Begin again with short pauses, because a try has succeeded."""
        self._tries = self._growing = self._unknown_topic = 0
        self._before = ""

    def pause(self, error: Exception) -> float:
        """Return how many seconds to wait before the next try.

        Raises:
            ClientTimeoutError: The deadline would come first.
            Exception: Another try does not help; it is `error`.
        """
        if not is_retriable(error):
            raise error
        # The last try may have had no time left. Then only the error before it says what is wrong.
        before = f"; before that: {self._before}" if self._before not in ("", str(error)) else ""
        if isinstance(error, UnknownTopicOrPartitionError | UnknownTopicIdError):
            self._unknown_topic += 1
            if self._unknown_topic >= UNKNOWN_TOPIC_TRIES:
                raise error
        seconds = self._steady.get(type(error))
        if seconds is None:
            self._growing += 1
            seconds = self._backoff.pause(self._growing)
        self._tries += 1
        is_timeout = isinstance(error, ClientTimeoutError)
        # A call inside of this one may have tried for as long as this one may.
        gave_up_at = error.gave_up_at if isinstance(error, ClientTimeoutError) else None
        if self.left <= seconds or (gave_up_at or 0.0) >= self.deadline:
            if is_timeout and not before:
                raise error
            raise self.gave_up(error, before) from error
        self._before = str(error)
        return seconds

    def gave_up(self, error: Exception, before: str = "") -> ClientTimeoutError:
        """Make the error for a call that is not tried again, because the deadline is near; `error` is its last one."""
        what = str(error) if isinstance(error, ClientTimeoutError) else f"gave up after {self._tries} tries: {error}"
        gave_up = ClientTimeoutError(what + before)
        gave_up.gave_up_at = self.deadline
        return gave_up

    def after(self, error: Exception) -> None:
        """Sleep for the time that `pause` returns.

        Raises:
            ClientTimeoutError: The deadline would come first, or the sleep has lasted beyond it.
            Exception: Another try does not help, or calls are to end; it is `error`.
        """
        seconds = self.pause(error)
        if self._ended is None:
            time.sleep(seconds)
        elif self._ended.wait(seconds):
            raise error
        if not self.left:
            # A machine that stalls lets a thread sleep for too long. A try without time would only hide what is wrong.
            raise self.gave_up(error) from error

    def after_each(self, errors: Mapping[K, Exception]) -> dict[K, Exception]:
        """Sleep as `after` does, if calls about several things have failed; return the errors that are not tried again.

        Each of `errors` is retriable. Things that stay unknown do not keep the others from being tried again.

        Raises:
            Exception: Calls are to end; it is one of `errors`.
        """
        unknown: dict[K, Exception] = {
            key: error
            for key, error in errors.items()
            if isinstance(error, UnknownTopicOrPartitionError | UnknownTopicIdError)
        }
        # What does not exist must not wait for as long as what has no leader.
        first = next(iter((unknown or errors).values()))
        try:
            self.after(first)
        except ClientTimeoutError as timeout:
            return {key: timeout if error is first else self.gave_up(error) for key, error in errors.items()}
        except (UnknownTopicOrPartitionError, UnknownTopicIdError):
            return unknown
        return {}

    def run(self, attempt: Callable[[], T], between: Callable[[Exception], None] | None = None) -> T:
        """Call `attempt` until it returns. Before every further try, call `between` with the error."""
        while True:
            try:
                return attempt()
            except Exception as error:
                self.after(error)
                if between is not None:
                    between(error)

"""Note the records that the target has not taken."""

from __future__ import annotations

import logging

from kafkalog.client.errors import ClientError

logger = logging.getLogger(__name__)


class SendFailedError(ClientError):
    """The target has not taken a record, and `abort.on.send.failure` is set."""


class Deliveries:
    """The outcomes of one stream's records; its methods may be called by any thread.

    Args:
        abort: Whether a record that cannot be delivered ends the stream.
    """

    def __init__(self, abort: bool) -> None:
        self._abort = abort
        self._failure: BaseException | None = None

    @property
    def have_failed(self) -> bool:
        """Return whether `check` raises."""
        return self._failure is not None

    def note(self, metadata: object, error: BaseException | None) -> None:
        """Take a record's outcome, as `on_delivery` of `Producer.send`."""
        if error is None:
            return
        if self._abort:
            self._failure = self._failure or error
        else:
            logger.warning("a record is left out: %s", error)

    def check(self) -> None:
        """Raise an error if a record was not delivered.

        Raises:
            SendFailedError: One was not, and that ends the stream.
        """
        if self._failure is not None:
            raise SendFailedError(f"abort.on.send.failure: a record was not delivered: {self._failure}")

"""The client's log lines while a command runs, printed as messages of the command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CLIENT = "kafkalog"
OUTAGES = "kafkalog.client.network.outage"
"""This logger also reports, at INFO, the end of an outage."""


class _Complaints(logging.Handler):
    """Passes the text of each log record on."""

    def __init__(self, complain: Callable[[object], None]) -> None:
        super().__init__()
        self._complain = complain

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._complain(record.getMessage())
        except Exception:
            self.handleError(record)


@contextmanager
def client_log(complain: Callable[[object], None]) -> Iterator[None]:
    """Pass the client's warnings, and messages that brokers answer again, to `complain` until the block ends."""
    client, outages = logging.getLogger(CLIENT), logging.getLogger(OUTAGES)
    handler = _Complaints(complain)
    before = outages.level
    client.addHandler(handler)
    outages.setLevel(logging.INFO)
    try:
        yield
    finally:
        client.removeHandler(handler)
        outages.setLevel(before)

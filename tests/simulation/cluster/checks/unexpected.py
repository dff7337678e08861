"""Errors that the product logs with their tracebacks because nobody has foreseen them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from broker.net.links.link_errors import LinkError
from broker.zookeeper.interface import ZooKeeperError
from kafkalog.protocol.errors import KafkaError

FORESEEN = (OSError, KafkaError, LinkError, ZooKeeperError)
"""Errors that failures of disks, brokers and ZooKeeper cause."""


class UnexpectedErrors(logging.Handler):
    """Collects them while it is watched.

    Attributes:
        found: a line for each of them.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, FORESEEN):
            self.found.append(f"unexpected: {record.getMessage()}: {self.format(record)[-1500:]}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Collect what is logged meanwhile."""
        loggers = [logging.getLogger(name) for name in ("broker", "kafkalog")]
        for each in loggers:
            each.addHandler(self)
        try:
            yield
        finally:
            for each in loggers:
                each.removeHandler(self)

"""Read streams in threads."""

from __future__ import annotations

import threading

from kafkalog.client.connector import MessageStream
from tests.support.waiting import wait_until


class Reading:
    """Reads streams, each in a thread of its own, until the connector is shut down.

    Attributes:
        values: the records' values, as numbers.
    """

    def __init__(self, *streams: MessageStream, values: list[int] | None = None) -> None:
        self.values: list[int] = [] if values is None else values
        for stream in streams:
            threading.Thread(target=self._read, args=[stream], daemon=True).start()

    def _read(self, stream: MessageStream) -> None:
        for record in stream:
            self.values.append(int(record.value or b""))

    def wait(self, count: int) -> None:
        """Wait until so many records are read."""
        wait_until(lambda: len(self.values) >= count, f"{count} records are read")

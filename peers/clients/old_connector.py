"""A member of a group in ZooKeeper: the high-level consumer of Kafka 0.8.2 (`OldConnector.java`).

Its jars, with Scala 2.11, zkclient 0.3 and ZooKeeper 3.4.6, run on today's Java without further options.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from peers.clients.old_java import jars
from peers.process import Process
from peers.toolchains import java

VERSION = "0.8.2.2"
_SOURCE = Path(__file__).with_name("OldConnector.java")


class OldConnector:
    """A process that reads a topic, or the topics that a filter allows, until it is stopped.

    Args:
        topics: The topic, or the regular expression of a white or black list.
        properties: Kafka 0.8's properties of consumers.
        log: The file for its output.
        kind: What `topics` is.
        streams: The number of streams.
    """

    def __init__(
        self,
        topics: str,
        properties: Mapping[str, str],
        log: Path,
        *,
        kind: Literal["topic", "white", "black"] = "topic",
        streams: int = 1,
    ) -> None:
        words = [kind, topics, str(streams), *(f"{key}={value}" for key, value in properties.items())]
        self._log = log
        self._process = Process(java.java_line(jars(VERSION), str(_SOURCE), words, ["-Xmx256M"]), log)

    def wait_ready(self) -> None:
        """Wait until it is a member of the group."""
        self._process.wait_until(lambda: "ready\n" in self._log.read_text(), 60.0)

    @property
    def values(self) -> list[str]:
        """The values that it has read."""
        lines = self._log.read_text().splitlines()
        return [line.removeprefix("read ") for line in lines if line.startswith("read ")]

    def stop(self) -> None:
        """Leave the group."""
        self._process.stop()

    def kill(self) -> None:
        """Send SIGKILL: its session expires later."""
        self._process.kill()

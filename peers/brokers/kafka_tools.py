"""Run Kafka's command-line tools in one Java process, because starting a process for each call takes long."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from peers.brokers import kafka
from peers.toolchains import java

SOURCE = Path(__file__).with_name("RunTools.java")
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
_END = "\x04"
_PATIENCE = {GROUPS: ("--timeout", "90000")}
"""Options that let a tool wait longer than its default of 5 s, for busy machines."""


class KafkaTools:
    """A Java process that runs tools of Apache Kafka `version` one after another, as a context manager."""

    def __init__(self, version: str = kafka.KAFKA_4) -> None:
        # The class of one version runs the tools of all.
        classes = java.compiled(kafka.kafka_classpath(version), SOURCE)
        self._process = subprocess.Popen(
            kafka.tool_line(SOURCE.stem, [], version, classes=[classes]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, tool: str, *words: str) -> list[str]:
        """Run a tool; return its standard output without empty lines."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((tool, *words, *_PATIENCE.get(tool, ()))) + "\n")
        self._process.stdin.flush()
        found: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == _END:
                return found
            if line.strip():
                found.append(line.rstrip("\n"))
        raise AssertionError(f"{tool} {' '.join(words)} ended the process after it had printed {found}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

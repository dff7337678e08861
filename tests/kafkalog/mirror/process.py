"""A mirror in a process of its own, which tests kill, and how far its target is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import READ_UNCOMMITTED, TopicPartition
from tests.kafkalog.mirror.conftest import Clusters
from tests.kafkalog.mirror.writing import PARTITIONS
from tests.support.command import start
from tests.support.waiting import wait_until


class MirrorProcess:
    """`kafkalog mirror start` for one topic; a static member, so that it gets its partitions back at once.

    Args:
        clusters: The source and the target.
        topic: The topic in the source, with `PARTITIONS` partitions.
        alias: The alias of the source.
        directory: Where its files are written.
        more: Properties of the mirror, with `_` in place of the dots.

    Attributes:
        remote: The topic in the target.
        errors: The file with all that it has printed.
    """

    def __init__(self, clusters: Clusters, topic: str, alias: str, directory: Path, **more: str) -> None:
        self.remote = f"{alias}.{topic}"
        self.errors = directory / "mirror.err"
        self._target = clusters.client("target")
        config, client = directory / "mirror.properties", directory / "source.properties"
        properties = {"offset_flush_interval_ms": "100", "emit_heartbeats_enabled": "false", **more}
        config.write_text("".join(f"{key.replace('_', '.')}={text}\n" for key, text in properties.items()))
        client.write_text("group.instance.id=one\n")
        self._words = ["mirror", "start", "--source", clusters.source, "--target", clusters.target, "--topics", topic]
        self._words += ["--source-alias", alias, "--config", str(config), "--source-config", str(client)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, for the first time or again."""
        with self.errors.open("ab") as output:
            self._process = start(*self._words, stdout=output, stderr=output)

    def kill(self) -> None:
        """Kill it."""
        self._end(kill=True)

    def stop(self) -> int:
        """Stop it; return its exit code."""
        return self._end(kill=False)

    def _end(self, *, kill: bool) -> int:
        assert self._process is not None
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        self._process.communicate()
        return self._process.returncode

    def grows(self, by: int, isolation: int = READ_UNCOMMITTED) -> None:
        """Wait until the target has so many offsets more, with those of open transactions or without."""
        least = self._written(isolation) + by
        wait_until(lambda: self._written(isolation) >= least, f"the target has {least} offsets")

    def _written(self, isolation: int) -> int:
        with Admin(self._target) as admin:
            if self.remote not in admin.list_topics():
                return 0
            wanted = {TopicPartition(self.remote, number): LATEST for number in range(PARTITIONS)}
            return sum(each.offset for each in list_offsets(admin.cluster, wanted, isolation).values())

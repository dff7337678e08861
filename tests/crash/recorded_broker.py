"""A broker process whose file operations are recorded: `python -m tests.crash.recorded_broker RECORD KEY=VALUE...`.

It differs from a user's broker only in its `FileOps`. The record is outside its log directories. So after a kill, a
test can compute what a power failure at any moment would have left of them.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from broker.config.server import BrokerConfig
from broker.main import run
from tests.crash.lossy_disk import RecordingOps, write_record
from tests.support.kafkalog_broker import KafkalogBroker


class RecordedBroker(KafkalogBroker):
    """A broker that starts on an empty directory and records its file operations in `record`."""

    @property
    def record(self) -> Path:
        return self.directory.with_name(self.directory.name + ".record")

    def command(self) -> list[str]:
        command = super().command()
        settings = [text for before, text in itertools.pairwise(command) if before == "--override"]
        return [sys.executable, "-m", "tests.crash.recorded_broker", str(self.record), *settings]


def main() -> int:
    record, *settings = sys.argv[1:]
    config = BrokerConfig(dict(setting.split("=", 1) for setting in settings))
    return run(config, RecordingOps(write_record(Path(record))))


if __name__ == "__main__":
    raise SystemExit(main())

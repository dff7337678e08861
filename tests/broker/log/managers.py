"""Log managers whose clock a test moves, and logs to fill."""

from __future__ import annotations

from pathlib import Path

from broker.log.files.file_ops import OS, FileOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from tests.broker.log.support import NOW, batch

CONFIG = LogConfig(segment_bytes=1000, file_delete_delay_ms=50, retention_bytes=2000)


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


def start(
    managers: list[LogManager], *paths: Path, ops: FileOps = OS, clock: Clock | None = None, load: bool = True
) -> LogManager:
    manager = LogManager(paths, CONFIG, clock=clock or Clock(), ops=ops)
    managers.append(manager)
    if load:
        manager.load_all()
    return manager


def fill(manager: LogManager, topic: str, partition: int = 0, count: int = 10) -> Log:
    """Append `count` batches of two records, all of them below the high watermark; return the log."""
    log = manager.create(topic, partition)
    for _ in range(count):
        log.append_batch(batch(2, size=50), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset
    return log


def log_of(manager: LogManager, topic: str, partition: int = 0) -> Log:
    """Return a log that the manager has."""
    log = manager.get(topic, partition)
    assert log is not None, f"there is no {topic}-{partition}"
    return log

"""Test what a start that fails, or is given up, leaves to the next one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.server import BrokerConfig
from broker.log.directories.log_dir import LogDir, LogDirLockedError
from broker.log.files.file_ops import OS, FileOps
from broker.runtime import Runtime
from broker.server import Server
from broker.system.workers import ThreadWorkers
from kafkalog.storage import names

DEADLINE_S = 60.0


def settings(directory: Path, **more: str) -> BrokerConfig:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory)}
    return BrokerConfig(texts | {key.replace("_", "."): value for key, value in more.items()})


async def started(config: BrokerConfig, files: FileOps = OS) -> Server:
    server = Server(config, Runtime.of_process(4, files))
    await server.start()
    return server


def start_and_stop(directory: Path) -> None:
    async def main() -> None:
        server = await started(settings(directory))
        await server.stop()
        server.runtime.workers.close(wait=True)

    asyncio.run(main())


def is_locked(directory: Path) -> bool:
    try:
        LogDir(directory).unlock()
    except LogDirLockedError:
        return True
    return False


class HeldLoading(FileOps):
    """Loading, which forces an unclean directory's names to the device, waits there until `go_on` is set."""

    __slots__ = ("go_on", "has_begun")

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.go_on = threading.Event()

    def fsync_dir(self, path: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.has_begun.set()
            assert self.go_on.wait(DEADLINE_S)
        super().fsync_dir(path)


class WatchedWorkers(ThreadWorkers):
    """Workers that call `closing` when nothing is left but to close them."""

    def __init__(self, threads: int, closing: Callable[[], None]) -> None:
        super().__init__(threads)
        self._closing = closing

    def close(self, *, wait: bool) -> None:
        self._closing()
        super().close(wait=wait)


def test_the_directories_stay_locked_until_loading_has_ended(tmp_path: Path) -> None:
    """Otherwise another broker could write there while this one still recovers."""
    start_and_stop(tmp_path)
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    files = HeldLoading()
    locked = []

    def closing() -> None:
        locked.append(is_locked(tmp_path))
        files.go_on.set()

    async def main() -> None:
        runtime = Runtime.of_process(1, files)
        server = Server(settings(tmp_path), replace(runtime, workers=WatchedWorkers(4, closing)))
        starting = asyncio.ensure_future(server.start())
        async with asyncio.timeout(DEADLINE_S):
            while not files.has_begun.is_set():
                await asyncio.sleep(0.001)
        # As Ctrl-C does.
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())
    assert locked == [True]
    assert not is_locked(tmp_path)

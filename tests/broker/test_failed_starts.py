"""Test what a start that fails, or is given up, leaves to the next one: its lock, and clean-shutdown markers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.log.directories.log_dir import LogDir, LogDirLockedError
from broker.log.files.file_ops import OS, FileOps
from broker.modes.lone import LoneMode
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


def is_marked(directory: Path) -> bool:
    return (directory / names.CLEAN_SHUTDOWN).exists()


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


@pytest.mark.parametrize("key", ["listeners", "kafkalog.metrics.listener"])
def test_a_start_that_fails_after_loading_is_followed_by_one_without_recovery(tmp_path: Path, key: str) -> None:
    start_and_stop(tmp_path)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            config = settings(tmp_path, **{key: f"PLAINTEXT://{address}" if key == "listeners" else address})
            with pytest.raises(ConfigError, match=address):
                await started(config)

    asyncio.run(main())
    assert is_marked(tmp_path)
    assert not is_locked(tmp_path)
    # It is so as well for a directory that needed recovery: this is over.
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    asyncio.run(main())
    assert is_marked(tmp_path)


@pytest.mark.parametrize("was_clean", [True, False])
def test_what_recovery_has_found_is_found_again_if_it_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_clean: bool
) -> None:
    """After an unclean stop a lone broker raises its leader epochs, once the logs are loaded."""
    start_and_stop(tmp_path)
    if not was_clean:
        (tmp_path / names.CLEAN_SHUTDOWN).unlink()

    async def fail(mode: LoneMode) -> None:
        raise OSError("the registry cannot be written")

    monkeypatch.setattr(LoneMode, "loaded", fail)
    with pytest.raises(OSError, match="the registry cannot be written"):
        asyncio.run(started(settings(tmp_path)))
    assert is_marked(tmp_path) is was_clean
    assert not is_locked(tmp_path)

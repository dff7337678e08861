"""Logs for the threads of a cleaner, and a run of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.system.workers import ThreadWorkers, Workers
from tests.broker.log.cleaner.support import keyed
from tests.broker.log.support import NOW
from tests.support.waiting import wait_until

COMPACT = LogConfig(cleanup_policy=("compact",), segment_bytes=2000, file_delete_delay_ms=0)

EAGER = CleanerConfig(backoff_ms=1, dedupe_buffer_size=1 << 20)


def fill(logs: LogManager, topic: str, keys: int, config: LogConfig = COMPACT, timestamp: int = NOW) -> Log:
    log = logs.create(topic, 0, config=config)
    for index in range(100):
        data = keyed([(b"%d" % (index % keys), b"v" * 50)], timestamp=timestamp)
        log.append_batch(data, leader_epoch=0, now_ms=NOW)
    log.roll(NOW)
    log.high_watermark = log.log_end_offset
    return log


async def until(holds: Callable[[], bool], what: str) -> None:
    """`wait_until`, while the loop goes on."""
    await asyncio.get_running_loop().run_in_executor(None, wait_until, holds, what)


def run(
    logs: LogManager,
    act: Callable[[LogCleaner], Coroutine[Any, Any, None]],
    config: CleanerConfig | Callable[[], CleanerConfig] = EAGER,
    workers: Workers | None = None,
) -> None:
    """Let a cleaner run while `act` does."""
    settings = config if callable(config) else lambda: config

    async def main() -> None:
        loop = asyncio.get_running_loop()
        cleaner = LogCleaner(logs, loop, workers or ThreadWorkers(2), settings, lambda: NOW, logs._ops)
        # The rate holds over an interval, and one has passed.
        cleaner._throttle._since -= 1
        cleaner.start()
        try:
            await act(cleaner)
        finally:
            await cleaner.stop()

    asyncio.run(main())
    assert logs.shutdown()

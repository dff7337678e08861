"""Test how links get what they log in with: a server that is slow takes one worker, however many links there are."""

from __future__ import annotations

import asyncio
import threading

from broker.security.sasl.broker_login import BrokerLogin
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.wire.sasl import Mechanism, Plain


def test_all_links_wait_with_one_worker() -> None:
    asked = threading.Semaphore(0)
    at_once: list[int] = []
    released = threading.Event()
    busy = 0

    def make(host: str, deadline: float) -> Mechanism:
        nonlocal busy
        busy += 1
        at_once.append(busy)
        asked.release()
        released.wait()
        busy -= 1
        return Plain(host, "")

    async def main() -> None:
        workers = ThreadWorkers(2)
        login = BrokerLogin(make, is_slow=True)
        try:
            links = [asyncio.ensure_future(login.mechanism(f"h{number}", 60, workers)) for number in range(5)]
            await asyncio.to_thread(asked.acquire)
            # The other worker is free for what else the broker does.
            assert await workers.run(lambda: "free") == "free"
            released.set()
            made = await asyncio.gather(*links)
        finally:
            released.set()
            workers.close(wait=True)
        assert [each.identity for each in made] == [f"user 'h{number}'" for number in range(5)]

    asyncio.run(asyncio.wait_for(main(), 60))
    assert at_once == [1] * 5

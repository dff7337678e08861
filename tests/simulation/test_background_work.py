"""Test that background work, cleaning and moving logs, uses its runtime's time and workers."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.log.log import Log
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkalog.protocol.messages.fetch import FetchResponse
from kafkalog.protocol.messages.produce import ProduceResponse
from kafkalog.records.batch import Record, decode_batch, encode_batch, iter_headers
from kafkalog.storage.names import CLEAN_SHUTDOWN
from tests.simulation import workers
from tests.simulation.host import SimulatedHost
from tests.simulation.network import SimulatedNetwork
from tests.simulation.virtual_time import VirtualLoop, run
from tests.support.wire import fetch_request, produce_request

BATCHES, KEYS = 60, 5
RATE = 2000
"""Bytes a second, of the cleaner and of moves."""
DEADLINE_S = 600.0


def value(number: int) -> bytes:
    return b"%0200d" % number


class Broker:
    """A broker with two log directories, and the topic `t`."""

    def __init__(self, loop: VirtualLoop, directory: Path, seed: int) -> None:
        chance = random.Random(seed)
        self.loop = loop
        self.dirs = [directory / "one", directory / "two"]
        settings = {
            "log.dirs": ",".join(map(str, self.dirs)),
            "log.cleaner.backoff.ms": "500",
            "log.cleaner.io.max.bytes.per.second": str(RATE),
            "replica.alter.log.dirs.io.max.bytes.per.second": str(RATE),
        }
        self.host = SimulatedHost(SimulatedNetwork(loop, chance), "one", directory, settings, chance)

    async def create(self, **config: str) -> None:
        configs = [CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in config.items()]
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        response = await self.host.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert response.topics[0].error_code == ErrorCode.NONE

    async def produce(self) -> None:
        """One batch after the other, with the same keys again and again."""
        for number in range(BATCHES):
            record = Record(0, self.host.server.runtime.now_ms(), b"%d" % (number % KEYS), value(number), ())
            records = encode_batch([record])
            response: ProduceResponse = await self.host.ask(produce_request("t", {0: records}, acks=-1), 9)
            assert response.responses[0].partition_responses[0].base_offset == number

    async def read(self) -> dict[int, bytes]:
        """Every record that is there, by its offset."""
        found: dict[int, bytes] = {}
        offset = 0
        while offset < BATCHES:
            response: FetchResponse = await self.host.ask(fetch_request("t", {0: offset}), 12)
            data = response.responses[0].partitions[0]
            assert data.error_code == ErrorCode.NONE
            records = bytes(data.records)
            for position, header in iter_headers(records):
                offset = header.last_offset + 1
                found |= {record.offset: record.value or b"" for record in decode_batch(records, position)[1]}
        return found

    def log(self) -> Log:
        log = self.host.server.logs.get("t", 0)
        assert log is not None
        return log

    async def move(self, log: Log) -> Path:
        """Begin to move the log to the other directory, which is returned."""
        target = next(path for path in self.dirs if path != log.log_dir)
        wanted = AlterReplicaLogDir(path=str(target), topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        response = await self.host.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 1)
        assert response.results[0].partitions[0].error_code == ErrorCode.NONE
        return target

    async def until(self, reached: Callable[[], bool]) -> float:
        """Wait for something; the seconds that it took."""
        begun = self.loop.time()
        while not reached():
            assert self.loop.time() < begun + DEADLINE_S
            await asyncio.sleep(0.01)
        return self.loop.time() - begun


def live(directory: Path, seed: int, life: Callable[[Broker], Awaitable[float]]) -> float:
    async def main(loop: VirtualLoop) -> float:
        broker = Broker(loop, directory, seed)
        await broker.host.start()
        result = await life(broker)
        await broker.host.stop()
        await broker.host.link.close()
        return result

    return run(main)


async def cleaning(broker: Broker) -> float:
    await broker.create(cleanup_policy="compact", segment_bytes="2000", min_cleanable_dirty_ratio="0.01")
    await broker.produce()
    log = broker.log()
    active = log.segments[-1].base_offset
    seconds = await broker.until(lambda: log.cleaned_offset == active)
    expected = {number: value(number) for number in range(BATCHES)}
    left = await broker.read()
    assert left.items() <= expected.items()
    # Of what was cleaned each key's latest record.
    assert [offset for offset in left if offset < active] == list(range(active - KEYS, active))
    return seconds


async def moving(broker: Broker) -> float:
    await broker.create(segment_bytes="2000")
    await broker.produce()
    log = broker.log()
    size = log.size
    target = await broker.move(log)
    seconds = await broker.until(lambda: log.log_dir == target)
    assert await broker.read() == {number: value(number) for number in range(BATCHES)}
    # The last interval of the throttle may pass unpaid.
    assert seconds > 0.8 * size / RATE
    return seconds


def test_recovery_runs_on_the_workers_of_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop that was not clean several logs are recovered at once."""
    opened: list[str] = []
    open_log = Log.open

    def note(path: Path, *args: Any, **options: Any) -> Log:
        opened.append(threading.current_thread().name)
        return open_log(path, *args, **options)

    async def life(broker: Broker) -> float:
        await broker.create()
        await broker.produce()
        await broker.host.stop()
        for directory in broker.dirs:
            (directory / CLEAN_SHUTDOWN).unlink()
        monkeypatch.setattr(Log, "open", note)
        while broker.host.link.connected:
            await asyncio.sleep(0.01)
        await broker.host.start()
        assert await broker.read() == {number: value(number) for number in range(BATCHES)}
        return 0.0

    live(tmp_path, 1, life)
    assert opened
    assert not [name for name in opened if name.startswith("log-recovery")]


def test_a_flush_waits_for_the_end_of_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The move holds flushes while it waits for the loop, which goes on."""
    monkeypatch.setattr(workers, "LONGEST_S", 0.0)
    files = Log.files
    flushes: list[asyncio.Future[Path]] = []

    async def life(broker: Broker) -> float:
        await broker.create(segment_bytes="2000")
        await broker.produce()
        log = broker.log()

        def flush() -> Path:
            log.flush()
            return log.log_dir

        def note(moved: Log) -> object:
            future = broker.host.server.logs.futures.get(("t", 0))
            if not flushes and future is not None and future.settling:
                flushes.append(broker.host.server.runtime.workers.run(flush))
            return files(moved)

        monkeypatch.setattr(Log, "files", note)
        target = await broker.move(log)
        await broker.until(lambda: log.log_dir == target)
        # It could not run before the log was in its new place.
        assert await flushes[0] == target
        return 0.0

    live(tmp_path, 1, life)


@pytest.mark.parametrize("life", [cleaning, moving])
def test_the_same_seed_makes_the_same_life(tmp_path: Path, life: Callable[[Broker], Awaitable[float]]) -> None:
    times = [live(tmp_path / name, seed, life) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert times[0] == times[1]
    assert times[0] != times[2]

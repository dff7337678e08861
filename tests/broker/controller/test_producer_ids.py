"""Test that producer ids found in use are never assigned again, whatever runs at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.controller.producer_ids import ProducerIds, blocks_of
from broker.metadata.local import LocalStore
from broker.metadata.model import ClusterState
from broker.metadata.store import Decision
from kafkalog.protocol.errors import KafkaStorageError
from tests.support.in_process.runtime import InlineWorkers


class SlowStore(LocalStore):
    """Commits, and tells of it when `told` is set; or fails with `error`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, workers=InlineWorkers())
        self.load(None)
        self.told = asyncio.Event()
        self.told.set()
        self.error: OSError | None = None

    async def commit(self, decide: Decision) -> ClusterState:
        if self.error is not None:
            raise self.error
        state = await super().commit(decide)
        await self.told.wait()
        return state


@pytest.fixture
def store(tmp_path: Path) -> SlowStore:
    return SlowStore(tmp_path)


def test_the_rest_of_a_block_is_not_given(store: SlowStore) -> None:
    async def work() -> None:
        ids = ProducerIds(blocks_of(store), store)
        assert [await ids.allocate(), await ids.allocate()] == [0, 1]
        await ids.reserve(0)
        assert await ids.allocate() == 2
        await ids.reserve(10)
        assert await ids.allocate() == 11
        await ids.reserve(5_000)
        assert store.state.next_producer_id == 5_001
        assert await ids.allocate() == 5_001

    asyncio.run(work())


@pytest.mark.parametrize("largest", [3, 5_000])
def test_a_block_that_is_being_taken_is_not_given(store: SlowStore, largest: int) -> None:
    async def work() -> None:
        ids = ProducerIds(blocks_of(store), store)
        store.told.clear()
        allocating = asyncio.ensure_future(ids.allocate())
        while store.state.next_producer_id == 0:
            await asyncio.sleep(0.001)
        reserving = asyncio.ensure_future(ids.reserve(largest))
        await asyncio.sleep(0)
        store.told.set()
        assert await allocating == largest + 1
        await reserving
        assert await ids.allocate() == largest + 2

    asyncio.run(work())


def test_what_cannot_be_stored_holds_all_the_same(store: SlowStore) -> None:
    async def work() -> None:
        ids = ProducerIds(blocks_of(store), store)
        store.error = OSError("full")
        with pytest.raises(KafkaStorageError):
            await ids.reserve(5_000)
        store.error = None
        assert await ids.allocate() == 5_001

    asyncio.run(work())

"""Test that an append costs a waiting fetch the same, however many partitions the fetch waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from broker.api.fetch import fetch
from broker.api.fetch.fetch_partition import FetchPartitionState
from broker.api.fetch.fetch_reading import FetchReading
from tests.broker.api.fetch.support import NEVER_MS, sizes, wanted
from tests.broker.coordinator.support import Stored
from tests.broker.serving import HERE, RECORDS, Serving


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, fetch.HANDLERS)


@pytest.mark.parametrize("is_large", [False, True])
def test_an_append_examines_one_partition(serving: Serving, monkeypatch: pytest.MonkeyPatch, is_large: bool) -> None:
    examined: list[int] = []
    is_behind = FetchReading.is_behind

    def noted(reading: FetchReading, states: Iterable[FetchPartitionState]) -> bool:
        found = list(states)
        examined.extend(state.partition for state in found)
        return is_behind(reading, found)

    monkeypatch.setattr(FetchReading, "is_behind", noted)
    monkeypatch.setattr(fetch, "MANY_BYTES", 0 if is_large else 1 << 20)

    async def work() -> None:
        task = serving.begin(wanted(range(HERE), wait_ms=NEVER_MS, min_bytes=2 * len(RECORDS)))
        await serving.until(lambda: serving.watched == 1)
        serving.append(7)
        await serving.until(lambda: bool(examined))
        assert examined == [7]
        assert not task.done()
        serving.append(8)
        assert sizes(await task) == {7: len(RECORDS), 8: len(RECORDS)}

    serving.run(work())

"""Test the leader epoch cache against the rules of KIP-101, and against a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.leader_epoch_cache import LeaderEpochCache
from tests.broker.log.support import FaultyOps, temporary_directory


@pytest.fixture
def cache(tmp_path: Path) -> LeaderEpochCache:
    cache = LeaderEpochCache(str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, start in [(2, 10), (4, 20), (7, 35)]:
        cache.assign(epoch, start)
    return cache


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 35)), (6, (4, 35)), (7, (7, 50)), (8, (-1, -1))],
)
def test_end_offset_for(cache: LeaderEpochCache, epoch: int, expected: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, 50) == expected


def test_an_empty_cache_knows_nothing(tmp_path: Path) -> None:
    assert LeaderEpochCache(str(tmp_path / "c")).end_offset_for(0, 9) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 4), (35, 7), (1000, 7)])
def test_epoch_for_offset(cache: LeaderEpochCache, offset: int, epoch: int) -> None:
    assert cache.epoch_for_offset(offset) == epoch


def test_it_is_on_disk_at_once(cache: LeaderEpochCache, tmp_path: Path) -> None:
    again = LeaderEpochCache(str(tmp_path / "leader-epoch-checkpoint"))
    assert again.entries() == [(2, 10), (4, 20), (7, 35)]
    assert again.latest_epoch == 7


def test_truncation(cache: LeaderEpochCache, tmp_path: Path) -> None:
    cache.truncate_from_start(25)
    assert cache.entries() == [(4, 25), (7, 35)]
    cache.truncate_from_end(35)
    assert cache.entries() == [(4, 25)]
    assert cache.latest_epoch == 4
    assert LeaderEpochCache(str(tmp_path / "leader-epoch-checkpoint")).entries() == [(4, 25)]
    cache.truncate_from_end(0)
    assert cache.latest_epoch == -1


def test_an_epoch_without_records_is_announced_without_waiting_for_the_device(tmp_path: Path) -> None:
    """And an announcement that the file has already, as at each start, does not write at all."""
    ops = FaultyOps()
    path = str(tmp_path / "c")
    for _ in range(3):
        cache = LeaderEpochCache(path, ops)
        cache.truncate_from_end(0, write=False)
        cache.announce(4, 0)
        assert cache.end_offset_for(4, 0) == (4, 0)
        assert LeaderEpochCache(path).entries() == [(4, 0)]
        assert cache.dirty, "the first append forces it"
    calls = [call for call, _ in ops.calls]
    assert calls.count("pwrite") == 1
    assert not {"fsync", "fsync_dir", "rename"} & set(calls)
    cache.assign(4, 0)
    assert not cache.dirty
    assert "fsync" in [call for call, _ in ops.calls]


def test_announcing_an_epoch_keeps_the_entries_of_records_on_the_device(
    cache: LeaderEpochCache, tmp_path: Path
) -> None:
    """The file gets the new one with its first record: until then no more than what it says is to be kept."""
    path = str(tmp_path / "leader-epoch-checkpoint")
    cache.announce(9, 50)
    assert cache.entries() == [(2, 10), (4, 20), (7, 35), (9, 50)]
    assert cache.dirty
    assert LeaderEpochCache(path).entries() == [(2, 10), (4, 20), (7, 35)]
    cache.assign(9, 50)
    assert not cache.dirty
    assert LeaderEpochCache(path).entries() == [(2, 10), (4, 20), (7, 35), (9, 50)]


def test_a_new_epoch_leaves_the_name_of_the_file_to_the_next_flush(tmp_path: Path) -> None:
    """The file of before only lacks what recovery finds again; one with wrong entries must not come back."""
    ops = FaultyOps()
    path = str(tmp_path / "c")
    cache = LeaderEpochCache(path, ops)
    assert cache.assign(4, 0)
    assert cache.assign(6, 10)
    assert not cache.assign(6, 20), "nothing to write"
    calls = [call for call, _ in ops.calls]
    assert (calls.count("fsync"), calls.count("fsync_dir")) == (2, 0)
    assert LeaderEpochCache(path).entries() == [(4, 0), (6, 10)]
    cache.truncate_from_end(10, write=False)
    assert not cache.assign(7, 10)
    assert [call for call, _ in ops.calls].count("fsync_dir") == 1


def test_an_unreadable_checkpoint_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("0\n5\n1 1\n")
    assert LeaderEpochCache(str(tmp_path / "c")).entries() == []


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40)), max_size=20))
def test_epochs_and_starts_always_grow(assignments: list[tuple[int, int]]) -> None:
    with temporary_directory() as directory:
        cache = LeaderEpochCache(str(directory / "c"))
        for epoch, start in assignments:
            before = cache.entries()
            cache.assign(epoch, start)
            entries = cache.entries()
            assert entries == sorted(set(entries))
            assert len({s for _, s in entries}) == len(entries)
            if before and before[-1][0] == epoch and before[-1][1] <= start:
                assert entries == before
            else:
                assert entries == [row for row in before if row[0] < epoch and row[1] < start] + [(epoch, start)]
        assert LeaderEpochCache(str(directory / "c")).entries() == cache.entries()


@pytest.mark.parametrize("row", ["-1 5", "5 -1", "x 1", "1 99999999999999999999", "3000000000 1"])
def test_rows_that_cannot_be_count_as_none(tmp_path: Path, row: str) -> None:
    (tmp_path / "c").write_text(f"0\n2\n1 1\n{row}\n")
    assert LeaderEpochCache(str(tmp_path / "c")).entries() == []

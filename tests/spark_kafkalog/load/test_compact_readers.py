"""Test that during a compaction readers see every row once or fail."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_kafkalog import faults
from spark_kafkalog.fs.interface import Files
from spark_kafkalog.load.layout.staging import Judge
from tests.spark_kafkalog.load.compacting import fill, interrupted, run
from tests.spark_kafkalog.load.loading import Loading


class Listing:
    """A reader that lists first and opens afterwards, as Spark, pyarrow and DuckDB do; each step can be delayed."""

    def __init__(self, files: Files, path: str) -> None:
        self.directories = [path]
        self.found: list[str] = []
        self._files = files

    def step(self) -> bool:
        """List one more directory; whether there is another."""
        directory = self.directories.pop()
        for each in self._files.list(directory):
            if not each.name.startswith(("_", ".")):
                (self.directories if each.is_directory else self.found).append(f"{directory}/{each.name}")
        return bool(self.directories)

    def finish(self) -> None:
        while self.directories:
            self.step()

    def read(self) -> dict[tuple[int, int], Any]:
        """Return every row of the files that were found.

        Raises:
            AssertionError: A row is there twice.
            OSError, pyarrow.ArrowInvalid: A file is missing, or is no Parquet.
        """
        rows: dict[tuple[int, int], Any] = {}
        for path in self.found:
            columns = pq.read_table(io.BytesIO(self._files.read(path))).to_pydict()
            for where in zip(columns["partition"], columns["offset"], columns["value"], strict=True):
                assert where[:2] not in rows, "a row is seen twice"
                rows[where[:2]] = where[2]
        return rows


def test_readers_see_every_row_once_or_fail(local_loading: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers begin to list at every step of a compaction, list further at every later one, and read at the end of it.

    All that a reader may see depends on where between the steps it lists and opens; here they list one directory a
    step, from every step on, in both orders, and open at once, some steps later, or after the compaction.
    """
    topic, rows = fill(local_loading, "readers", 3, partitions=1)
    files, path = local_loading.files, local_loading.path(topic)
    under_way: list[tuple[Listing, int]] = []
    outcomes: list[bool] = []

    def settle(reader: Listing) -> None:
        try:
            seen = reader.read()
        except AssertionError:
            raise
        except Exception:
            outcomes.append(False)
        else:
            assert seen == rows, f"a reader saw {len(seen)} of {len(rows)} rows"
            outcomes.append(True)

    def point(name: str) -> None:
        if not name.startswith("compact-"):
            return
        for reader, _ in under_way:
            if reader.directories:
                reader.step()
        for entry in [each for each in under_way if not each[0].directories]:
            if entry[1] <= len(outcomes) % 4:
                under_way.remove(entry)
                settle(entry[0])
        for order in (1, -1):
            for patience in range(4):
                reader = Listing(files, path)
                reader.step()
                reader.directories = reader.directories[::order]
                under_way.append((reader, patience))
            at_once = Listing(files, path)
            at_once.finish()
            settle(at_once)

    monkeypatch.setattr(faults, "point", point)
    run(local_loading, topic)
    monkeypatch.undo()
    for reader, _ in under_way:
        reader.finish()
        settle(reader)
    assert True in outcomes
    assert False in outcomes
    assert len(outcomes) > 200


def _pyarrow(path: str) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(path, partitioning="hive").to_table(columns=["offset"]).num_rows)


def _duckdb(path: str) -> int:
    import duckdb

    files = f"read_parquet('{path}/load=*/*/*/*.parquet', hive_partitioning=true)"
    found = duckdb.sql(f"SELECT count(value) FROM {files}")
    assert found is not None
    return int(found.fetchall()[0][0])


@pytest.mark.parametrize("reader", [_pyarrow, _duckdb])
def test_real_readers_fail_where_there_is_a_sign(
    local_loading: Loading, reader: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, rows = fill(local_loading, "sign", 2)
    path = local_loading.path(topic)
    assert reader(path) == len(rows)
    assert interrupted(local_loading, topic, "hidden", 2, monkeypatch)
    with pytest.raises(Exception, match=r"(?i)magic|parquet"):
        reader(path)
    monkeypatch.setattr(Judge, "is_dead", lambda self, run: True)
    run(local_loading, topic)
    assert reader(path) == len(rows)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_fails_where_there_is_a_sign(
    local_loading: Loading, run_spark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, rows = fill(local_loading, "spark-sign", 2)
    assert rows
    assert interrupted(local_loading, topic, "hidden", 2, monkeypatch)
    with pytest.raises(AssertionError, match=r"(?i)is not a parquet file"):
        run_spark(local_loading.path(topic))

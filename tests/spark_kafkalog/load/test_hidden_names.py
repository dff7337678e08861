"""Test that readers see the rows of topics with any name: they skip files whose names begin with `_` or `.`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.spark_kafkalog.load.compacting import run
from tests.spark_kafkalog.load.loading import Loading, data_files, expected
from tests.spark_kafkalog.topics import Sent, numbers

FIRST = ["_", ".", "__"]
LONG = "long-"


def fill(loading: Loading, first: str) -> tuple[str, list[Sent]]:
    """Load two files of one topic whose name begins so; a name that begins with LONG has Kafka's largest length."""
    topic = first + loading.topics.name("hidden")
    if first == LONG:
        topic = topic.ljust(249, "x")
    loading.topics.create_named(topic)
    sent = []
    for load in range(2):
        sent += loading.topics.produce(topic, numbers(10, load * 10))
        loading.load(topic, min_splits=1)
    return topic, sent


def counts(path: str) -> set[int]:
    """Return how many rows readers find by the documented ways."""
    rows = duckdb.sql(f"FROM read_parquet('{path}/load=*/*/*/*.parquet', hive_partitioning=true)")
    assert rows is not None
    dataset = ds.dataset(path, partitioning="hive")
    return {dataset.to_table(columns=["offset"]).num_rows, pq.read_table(path).num_rows, len(rows.fetchall())}


@pytest.mark.parametrize("first", [*FIRST, LONG])
def test_no_row_is_hidden(local_loading: Loading, first: str) -> None:
    topic, sent = fill(local_loading, first)
    path = local_loading.path(topic)
    assert counts(path) == {20}
    assert local_loading.check(topic) == expected(sent)
    done = run(local_loading, topic)
    assert done.files_before == 2
    assert done.rows == 20
    assert counts(path) == {20}
    assert local_loading.rows(topic) == expected(sent)


@pytest.mark.parametrize("first", [*FIRST, "_" + "x" * 160])
def test_a_compaction_shows_what_earlier_versions_have_hidden(local_loading: Loading, first: str) -> None:
    """It also replaces a file that is alone, or large."""
    topic, sent = fill(local_loading, first)
    path = local_loading.path(topic)
    for each in map(Path, data_files(local_loading.files, path)):
        _, _, place = each.name.removeprefix("+").partition("+")
        each.rename(each.with_name(f"{topic}+{place}"))
        (each.parent / "_SUCCESS").touch()
        (each.parent / f".{each.name}.crc").touch()
    assert local_loading.rows(topic) == {}
    assert run(local_loading, topic, target_bytes=1).files_before == 2
    assert counts(path) == {20}
    assert local_loading.rows(topic) == expected(sent)
    assert run(local_loading, topic, target_bytes=1).files_before == 0


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_sees_them(local_loading: Loading, run_spark: Callable[[str], Any]) -> None:
    for first in FIRST[:2]:
        topic, sent = fill(local_loading, first)
        total = sum(each.offset for each in sent)
        assert run_spark(local_loading.files.url(local_loading.path(topic))) == (20, total, sum(range(20)))

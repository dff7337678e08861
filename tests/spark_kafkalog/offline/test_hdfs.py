"""Test a log directory that was copied into HDFS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from peers.cache import require
from peers.clusters import hdfs
from spark_kafkalog.fs.opening import file_system, open_files
from spark_kafkalog.options.parsing import OptionsError
from tests.spark_kafkalog.offline.written import batch, offsets, write_segment

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a directory with partition t-0, offsets 0..99."""
    require(hdfs.missing())
    local = tmp_path_factory.mktemp("log") / "t-0"
    for base in (0, 50):
        write_segment(local, [batch(n, 5, size=3000) for n in range(base, base + 50, 5)])
    with hdfs.Hdfs() as running:
        url = f"{running.url}/kafka/broker 1"
        target, path = open_files(url)
        target.make_directories(f"{path}/t-0")
        for each in local.iterdir():
            target.write(f"{path}/t-0/{each.name}", each.read_bytes())
        yield url


def test_rows(copied: str) -> None:
    assert offsets(copied) == list(range(100))
    assert offsets(f"{copied}/t-0") == list(range(100))
    assert offsets(copied.replace("broker 1", "*/t-*"), maxBytesPerPartition=40_000) == list(range(100))
    assert offsets(copied, **{"kafka.isolation.level": "read_committed"}) == list(range(100))


def test_what_is_not_there(copied: str) -> None:
    with pytest.raises(OptionsError, match="does not exist"):
        offsets(f"{copied}/nowhere")
    fs = file_system(copied)
    with pytest.raises(FileNotFoundError):
        fs.entries(f"{copied}/nowhere")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{copied}/nowhere")


def test_in_spark(spark: SparkSession, copied: str) -> None:
    assert spark.read.format("kafkalog").load(copied).count() == 100

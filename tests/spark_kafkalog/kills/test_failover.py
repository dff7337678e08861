"""Spark through failovers: leaders of a cluster of three brokers are killed while Spark reads, writes and loads.

Every record is there once: in the output of a streaming query, in the topic that the exactly-once sink writes to, and
in published loads. An idempotent producer goes on all the time.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Semaphore, Thread

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from peers import require
from peers.toolchains import java
from spark_kafkalog.fs.opening import open_files
from spark_kafkalog.load.job import topic_path
from tests.crash.cluster.drilled import DrilledCluster, drilled_cluster
from tests.crash.cluster.load import Load, read_all, under_load
from tests.spark_kafkalog.load.loading import rows_of
from tests.support.broker_cluster import DEADLINE_S, IDS
from tests.support.command import run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("processes"), pytest.mark.timeout(900)]

PARTITIONS = 3
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrilledCluster]:
    require(java.missing())
    with drilled_cluster(tmp_path_factory.mktemp("failover")) as running:
        yield running


def source(spark: SparkSession, cluster: DrilledCluster, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kafkalog").options(**options).load()


def new_topic(cluster: DrilledCluster) -> str:
    topic = f"failover-{uuid.uuid4().hex[:8]}"
    cluster.create(topic, ASSIGNMENT)
    return topic


def kill_leaders(cluster: DrilledCluster, topic: str, load: Load, wait_for_more: Callable[[], None]) -> None:
    """Kill the leader of each partition in turn; the reader has to go on without it before it is started again."""
    for index in range(PARTITIONS):
        wait_for_more()
        victim = cluster.leader(topic, index, IDS[0])
        assert victim in IDS
        cluster.kill(victim)
        load.wait_acknowledged()
        wait_for_more()
        cluster.start(victim)
        cluster.wait_alive()
        cluster.wait_whole(topic)


def more_of(query: StreamingQuery) -> Callable[[], None]:
    """Return what waits for another micro-batch with rows."""

    def last() -> int:
        assert query.isActive, query.exception()
        return max((each.batchId for each in query.recentProgress if each.numInputRows), default=-1)

    def wait() -> None:
        before = last()
        wait_until(lambda: last() > before, "the query goes on", DEADLINE_S)

    return wait


def values_of(cluster: DrilledCluster, topic: str) -> dict[tuple[int, int], bytes]:
    """Return all records of a topic by partition and offset."""
    return {
        (index, offset): value
        for index in range(PARTITIONS)
        for offset, value in read_all(cluster, topic, index).items()
    }


def test_a_streaming_query(spark: SparkSession, cluster: DrilledCluster, tmp_path: Path) -> None:
    topic, output = new_topic(cluster), str(tmp_path / "output")
    writing = source(spark, cluster, topic).selectExpr("partition", "offset", "value").writeStream.format("parquet")
    query = writing.option("path", output).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with under_load(cluster, topic, PARTITIONS) as load:
            kill_leaders(cluster, topic, load, more_of(query))
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(output).collect()
    found = {(row.partition, row.offset): bytes(row.value) for row in rows}
    assert len(rows) == len(found), "records are there twice"
    assert found == values_of(cluster, topic)


def test_the_exactly_once_sink(spark: SparkSession, cluster: DrilledCluster, tmp_path: Path) -> None:
    topic, copy = new_topic(cluster), new_topic(cluster)
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "topic": copy,
        "kafka.transactional.id": f"{copy}-job",
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }
    query = source(spark, cluster, topic).select("value").writeStream.format("kafkalog").options(**options).start()
    try:
        with under_load(cluster, topic, PARTITIONS) as load:
            kill_leaders(cluster, topic, load, more_of(query))
        query.processAllAvailable()
    finally:
        query.stop()
    cluster.wait_whole(copy)
    # librdkafka's consumer reads committed records only, unless told otherwise.
    copied = Counter(values_of(cluster, copy).values())
    assert copied == Counter(values_of(cluster, topic).values())
    assert set(copied.values()) == {1}


def test_loads(cluster: DrilledCluster, tmp_path: Path) -> None:
    topic, target = new_topic(cluster), tmp_path / "loads"
    words = ["load", "--without-spark", "--quiet", "--topic", topic, "--to", str(target)]
    words += ["--bootstrap-server", cluster.bootstrap]
    done, end = Semaphore(0), Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not end.is_set():
                run(*words)
                done.release()
        except BaseException as error:
            failed.append(error)

    def more() -> None:
        while done.acquire(blocking=False):
            pass
        # One may have begun before.
        for _ in range(2):
            assert done.acquire(timeout=DEADLINE_S), failed
        assert not failed, failed

    thread = Thread(target=work)
    thread.start()
    try:
        with under_load(cluster, topic, PARTITIONS) as load:
            kill_leaders(cluster, topic, load, more)
    finally:
        end.set()
        thread.join()
    assert not failed, failed
    run(*words)
    files, root = open_files(str(target))
    # Each row is there once: `rows_of` says so.
    assert rows_of(files, topic_path(root, topic)) == values_of(cluster, topic)

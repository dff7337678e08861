"""Test surprising behaviour of PySpark's data source API, one case each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_kafkalog import offsets
from spark_kafkalog.columns import source_schema
from spark_kafkalog.driver.stream_reader import KafkalogStreamReader
from spark_kafkalog.executor.tasks import SmallBatch
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.queries.streaming import Sink, wait_for
from tests.spark_kafkalog.topics import Topics, numbers


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path)


def reader(topics: Topics, topic: str, **options: str) -> KafkalogStreamReader:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, **options}
    return KafkalogStreamReader(SourceOptions.parse(given), source_schema(False))


def failure(query: Any) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(60)
    return str(caught.value)


@pytest.mark.usefixtures("processes")
def test_discovery_loads_nothing_heavy() -> None:
    """Every `pyspark_*` module is imported at the first use of any source; one that fails hides them all."""
    script = (
        "import sys, pyspark_kafkalog; from pyspark.sql.datasource import DataSource; "
        "assert issubclass(pyspark_kafkalog.DefaultSource, DataSource); "
        "print([name for name in ('numba', 'pyarrow.parquet', 'cramjam', 'crc32c', 'broker') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_no_registration_is_needed(spark: SparkSession, reads: Reads, topics: Topics) -> None:
    """Nothing in these tests calls `spark.dataSource.register`."""
    frame: DataFrame = reads.batch(subscribe=topics.create("found"))
    assert frame.schema == source_schema(False)


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"endingOffsets": "latest"}, None, "ending offset not valid in streaming queries"),
        ({}, "value STRING", "column 'value' is BINARY, not STRING"),
        (
            {"startingOffsets": '{"other":{"0":1}}'},
            None,
            "you must specify all TopicPartitions",
        ),
    ],
)
def test_what_fails_in_the_planner_says_why(
    reads: Reads, topics: Topics, sink: Sink, options: dict[str, str], schema: str | None, message: str
) -> None:
    """An exception while the planner makes its reader would come out as UnboundLocalError."""
    frame = reads.stream(schema, subscribe=topics.create("why"), **options)
    said = failure(sink.start(frame, availableNow=True))
    assert message in said
    assert "UnboundLocalError" not in said


def test_a_broker_that_is_not_there_does_not_hang_the_planner(reads: Reads, sink: Sink) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"}
    said = failure(sink.start(reads.stream(subscribe="t", **options), availableNow=True))
    assert "127.0.0.1:1" in said


def test_the_initial_offset_is_asked_for_again(topics: Topics) -> None:
    """Spark asks several times while the first batch is planned: the answer stays."""
    topic = topics.create("asked", 2)
    reading = reader(topics, topic, startingOffsets="latest")
    first = json.dumps(reading.initialOffset())
    topics.produce(topic, numbers(10))
    assert json.dumps(reading.initialOffset()) == first
    reading.stop()


def test_a_crash_in_the_first_batch_does_not_move_the_start(
    spark: SparkSession, reads: Reads, topics: Topics, tmp_path: Path
) -> None:
    """Spark has logged the first batch's end, but a source cannot log its start, and "latest" has moved since."""
    topic = topics.create("first")
    topics.produce(topic, numbers(5))
    frame = reads.stream(subscribe=topic, startingOffsets="latest")
    seen: list[bytes] = []
    fail = True

    def process(batch: DataFrame, number: int) -> None:
        if fail:
            raise RuntimeError("crash in the first batch")
        seen.extend(bytes(row.value) for row in batch.orderBy("offset").collect())

    writer = frame.writeStream.foreachBatch(process).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert "crash in the first batch" in failure(writer.trigger(availableNow=True).start())
    topics.produce(topic, numbers(10, 5))
    fail = False
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert seen == numbers(10, 5)


def test_a_first_batch_is_repeated_where_its_options_tell_no_start_any_more(topics: Topics) -> None:
    """A partition was added, and `startingOffsets` does not name it. The batch's end has the start."""
    topic = topics.create("more")
    topics.produce(topic, numbers(5))
    options = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    before = reader(topics, topic, **options)
    start = before.initialOffset()
    end = json.loads(json.dumps(before.latestOffset(start, before.getDefaultReadLimit())))
    planned = before.partitions(start, end)
    before.stop()

    topics.add_partitions(topic, 2)
    after = reader(topics, topic, **options)
    none = after.initialOffset()
    assert after.partitions(none, end) == planned
    assert offsets.from_json(after.latestOffset(end, ReadAllAvailable())) == {(topic, 0): 5, (topic, 1): 0}
    with pytest.raises(OptionsError, match="you must specify all TopicPartitions"):
        after.latestOffset(none, ReadAllAvailable())
    after.stop()


def test_a_repeated_first_batch_reads_what_was_planned(topics: Topics) -> None:
    """The same with rows in the first batch: a new planner, asked for a new start, plans the old ranges."""
    topic = topics.create("repeated")
    topics.produce(topic, numbers(5))
    before = reader(topics, topic, startingOffsets="latest")
    start = before.initialOffset()
    topics.produce(topic, numbers(10, 5))
    end = json.loads(json.dumps(before.latestOffset(start, before.getDefaultReadLimit())))
    planned = before.partitions(start, end)
    before.stop()

    topics.produce(topic, numbers(10, 15))
    after = reader(topics, topic, startingOffsets="latest")
    moved = after.initialOffset()
    assert offsets.from_json(moved) != offsets.from_json(start)
    assert after.partitions(moved, end) == planned
    # From then on it is an offset like any other.
    last = after.latestOffset(end, ReadAllAvailable())
    assert offsets.initial_of(last) is None
    (task,) = after.partitions(end, last)
    assert isinstance(task, SmallBatch)
    assert [(each.start, each.end) for each in task.ranges] == [(15, 25)]
    after.stop()


def test_nothing_new_is_the_same_text(reads: Reads, topics: Topics, sink: Sink) -> None:
    """Spark compares offsets as text: any difference would make an empty batch at every trigger."""
    topic = topics.create("idle", 12)
    topics.produce(topic, numbers(30))
    query = sink.start(reads.stream(subscribe=topic, startingOffsets="earliest"), processingTime="10 milliseconds")
    wait_for(lambda: len(sink.values()) == 30, "reading", query)
    batches = len(sink.offsets())
    idle = time.monotonic() + 1
    wait_for(lambda: time.monotonic() > idle and not query.status["isTriggerActive"], "some idle triggers", query)
    query.stop()
    assert len(sink.offsets()) == batches


def test_the_offset_log_has_the_form_of_sparks_own_source(reads: Reads, topics: Topics, sink: Sink) -> None:
    topic = topics.create("form", 2)
    topics.produce(topic, numbers(4), partition=1)
    frame = reads.stream(subscribe=topic, startingOffsets="earliest")
    sink.drain(frame)
    topics.produce(topic, numbers(4), partition=0)
    sink.drain(frame)
    end = sink.offsets()[-1]
    assert end.pop(topic) == {"0": 4, "1": 4}
    # The topic's id is in a key that has no partitions, so that Spark's own source finds none.
    assert [(key[:3], key.rpartition(":")[2], partitions) for key, partitions in end.items()] == [("id:", topic, {})]


def test_commit_is_late_and_not_needed(topics: Topics) -> None:
    """The last batch of a run is never committed, and an exception in commit would end the query."""
    topic = topics.create("commit")
    reading = reader(topics, topic, startingOffsets="earliest")
    reading.commit({"any": "thing"})
    topics.produce(topic, numbers(3))
    start = reading.initialOffset()
    assert offsets.from_json(reading.latestOffset(start, ReadAllAvailable())) == {(topic, 0): 3}
    reading.stop()
    reading.stop()


def test_an_offset_of_another_source_is_refused(topics: Topics) -> None:
    reading = reader(topics, topics.create("other"))
    with pytest.raises(ValueError, match="no offset of this source"):
        reading.latestOffset({"seqNum": 5}, ReadAllAvailable())
    reading.stop()

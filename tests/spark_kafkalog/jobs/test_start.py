"""Test that the queries of a job begin at the same offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.compat.gateway import hadoop_files
from spark_kafkalog.jobs import enrich
from spark_kafkalog.jobs.start import same_for_all
from spark_kafkalog.options.parsing import OptionsError
from tests.spark_kafkalog.topics import Topics, numbers
from tests.spark_kafkalog.without_spark import Stream

pytestmark = pytest.mark.spark


def planned(checkpoint: Path) -> None:
    """Leave what a query leaves that has planned its first micro-batch."""
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").touch()


def test_latest_is_found_once_for_all_queries(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("start", 2)
    topics.produce(topic, numbers(3), partition=0)
    checkpoints = [tmp_path / "one", tmp_path / "two"]

    def start(given: str) -> str:
        source = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "startingOffsets": given}
        found = same_for_all(spark, source, str(tmp_path / "note"), [str(each) for each in checkpoints])
        assert found.keys() - source.keys() <= {"startingOffsetsStrategy"}
        return found["startingOffsets"]

    assert start("earliest") == "earliest"
    assert json.loads(start("latest")) == {topic: {"0": 3, "1": 0}}
    topics.produce(topic, numbers(2), partition=1)
    assert json.loads(start("latest")) == {topic: {"0": 3, "1": 2}}, "no query has begun yet"
    planned(checkpoints[0])
    topics.produce(topic, numbers(2), partition=1)
    assert json.loads(start("latest")) == {topic: {"0": 3, "1": 2}}, "the other one begins where the first has"
    hadoop_files.write_text(spark, str(tmp_path / "note"), '{"top')
    with pytest.raises(OptionsError, match=r"note has no offsets .*Remove it"):
        start("latest")
    planned(checkpoints[1])
    assert start("latest") == "latest"


def test_partitions_that_are_added_before_a_query_begins(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("start", 1)
    topics.produce(topic, numbers(3), partition=0)
    checkpoints = [tmp_path / "one", tmp_path / "two"]

    def start() -> dict[str, str]:
        given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "startingOffsets": "latest"}
        found = same_for_all(spark, given, str(tmp_path / "note"), [str(each) for each in checkpoints])
        assert json.loads(found["startingOffsets"]) == {topic: {"0": 3}}
        return found

    def values(source: dict[str, str]) -> list[bytes | None]:
        query = Stream(topics.bootstrap, **source)
        query.drain()
        return query.values()

    found = start()
    topics.add_partitions(topic, 2)
    topics.produce(topic, numbers(2), partition=1)
    assert values(found) == numbers(2), "between the start of the job and that of a query"
    planned(checkpoints[0])
    assert values(start()) == numbers(2), "before the job is started again"


def test_both_queries_of_a_job_begin_there(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic, to = topics.create("start"), topics.create("target")
    topics.produce(topic, numbers(3))
    table = tmp_path / "table.csv"
    table.write_text("status,meaning\n200,OK\n")
    words = ["--bootstrap-server", topics.bootstrap, "--topic", topic, "--to", to, "--starting-offsets", "latest"]
    words += ["--lookup", str(table), "--on", "status", "--rejected", str(tmp_path / "rejected")]
    assert enrich.main([*words, "--checkpoint", str(tmp_path / "checkpoint")]) == 0
    note = json.loads((tmp_path / "checkpoint" / "enrich-starting-offsets.json").read_text())
    assert note == {topic: {"0": 3}}
    for query in ("enrich", "enrich-rejected"):
        planned_first = (tmp_path / "checkpoint" / query / "offsets" / "0").read_text().splitlines()[-1]
        begun = offsets.initial_of(json.loads(planned_first))
        assert begun is not None
        assert begun.offsets == {TopicPartition(topic, 0): 3}

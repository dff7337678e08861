"""Tests of the metrics that are computed from a query's progress."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafkalog.client.types import TopicPartition
from spark_kafkalog import progress
from spark_kafkalog.offsets import Position, to_json, with_initial
from spark_kafkalog.progress import BehindLatest, behind_latest
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.waiting import wait_until

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
END = Position({A0: 5, A1: 7}, {"a": "J2zBe_1rTjG0dC4QO1bWWg"})


def told(*sources: tuple[Any, Any], name: str | None = "q") -> dict[str, Any]:
    return {
        "id": "1-2-3",
        "name": name,
        "batchId": 4,
        "sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources],
    }


@pytest.mark.parametrize("form", [lambda document: document, json.dumps])
def test_the_metrics_are_those_of_sparks_source(form: Any) -> None:
    end = with_initial(to_json(END), {A0: 0, A1: 0})
    (found,) = behind_latest(told((form(end), form(to_json({A0: 5, A1: 12, B0: 3})))))
    assert (found.query, found.batch, found.source, found.topics) == ("q", 4, 0, ["a"])
    assert found.partitions == {A0: 0, A1: 5}
    assert found.metrics() == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "5",
        "avgOffsetsBehindLatest": "2.5",
    }
    assert str(found) == (
        "query q, batch 4: 5 offsets behind the latest of a (minimum 0, average 2.5, maximum 5 in 2 partitions)"
    )


@pytest.mark.parametrize(
    "other", [(None, None), ("", ""), ("7", "9"), ({"a": 7}, {"a": 9}), ("{", "{"), ({}, {}), (to_json(END), None)]
)
def test_sources_of_other_formats_are_left_out(other: tuple[Any, Any]) -> None:
    found = behind_latest(told(other, (to_json(END), to_json({A0: 6, A1: 7})), name=None))
    assert found == [BehindLatest("1-2-3", 4, 1, {A0: 1, A1: 0})]
    assert behind_latest(None) == []


def test_a_query_is_watched(
    reads: Reads, topics: Topics, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create("watched", 2)
    topics.produce(topic, numbers(7), partition=0)
    topics.produce(topic, numbers(3), partition=1)
    caplog.set_level(logging.INFO, "spark_kafkalog.progress")
    watched = progress.watch(spark)
    try:
        frame = reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
        query = frame.writeStream.format("noop").queryName("watched").start()
        try:
            query.processAllAvailable()
            wait_until(lambda: any(each.total == 0 for each in watched.last(query)), "the last progress")
        finally:
            query.stop()
    finally:
        spark.streams.removeListener(watched)
    (last,) = watched.last(query)
    assert last.partitions == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    assert [each.topics for each in behind_latest(query.lastProgress)] == [[topic]]
    assert watched.last("another") == []
    first = next(each for each in caplog.messages if f"behind the latest of {topic}" in each)
    assert first.startswith("query watched, batch 0: 6 offsets behind the latest")

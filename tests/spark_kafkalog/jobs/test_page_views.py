"""Test the job `page_views` through spark-submit, against sums computed without Spark."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafkalog.jobs import access_log, page_views
from tests.spark_kafkalog.jobs import web
from tests.spark_kafkalog.jobs.reading import records_of
from tests.spark_kafkalog.jobs.submitting import committed, submit, submit_and_kill
from tests.spark_kafkalog.topics import Topics

pytestmark = pytest.mark.spark

LAST = web.PERFECT % (b"10.0.0.1", b"22/May/2015:00:00:00 +0000", b"/last")
"""Closes every hour of the real lines."""
REJECTED: list[tuple[bytes | None, str]] = [
    (None, access_log.NO_VALUE),
    (b"\x16\x03\x01", access_log.NO_LINE),
    (b"", access_log.NO_LINE),
    (web.PERFECT % (b"h", b"31/Feb/2015:00:00:00 +0000", b"/"), access_log.NO_TIME),
    (web.PERFECT % (b"h", b"01/Jan/2999:00:00:00 +0000", b"/"), page_views.AHEAD),
    (web.PERFECT % (b"h", b"17/May/2015:11:00:00 +0000", b""), access_log.NO_REQUEST),
]


def interleaved(topics: Topics, topic: str, values: list[Any]) -> None:
    """Into two partitions in turn, so that neither runs ahead of the other by hours."""
    topics.produce(topic, [{"value": value, "partition": place % 2} for place, value in enumerate(values)])


def options(bootstrap: str, topic: str, directory: Path) -> list[str]:
    where = {"output": "out", "checkpoint": "checkpoint"}
    named = [f"--{option}={directory / name}" for option, name in where.items()]
    return ["--bootstrap-server", bootstrap, "--topic", topic, "--json", *named]


def written(spark: SparkSession, directory: Path) -> list[web.View]:
    rows = spark.read.parquet(str(directory / "out")).selectExpr(
        "unix_seconds(hour) AS hour", "path", "status_class", "views", "bytes"
    )
    return [web.View(datetime.fromtimestamp(row.hour, UTC), *row[1:]) for row in rows.collect()]


@pytest.mark.timeout(600)
def test_hours_are_counted_and_other_lines_set_aside(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create("views", 2)
    lines = web.access_lines()
    interleaved(topics, topic, [*lines, *(value for value, _ in REJECTED)])
    asked = options(topics.bootstrap, topic, tmp_path)
    done = submit("page_views", tmp_path / "spark", *asked, "--rejected", str(tmp_path / "rejected"))
    assert done.code == 0, done.output + done.errors
    views = written(spark, tmp_path)
    assert len(views) == len(set(views))
    assert set(views) == web.closed_views(lines)
    rejected = spark.read.parquet(str(tmp_path / "rejected")).collect()
    assert Counter((None if row.value is None else bytes(row.value), row.reason) for row in rejected) == Counter(
        REJECTED
    )
    assert {row.topic for row in rejected} == {topic}
    assert len({(row.partition, row.offset) for row in rejected}) == len(REJECTED)
    assert done.figures == {
        "lines": len(lines) + len(REJECTED),
        "rejected": dict(Counter(reason for _, reason in REJECTED)),
        "windows": len(views),
        "late": 0,
    }


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_killed_in_the_middle_and_restarted(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic, aside = topics.create("views", 2), topics.create("rejected")
    lines = web.access_lines()
    interleaved(topics, topic, [REJECTED[1][0], *lines, REJECTED[2][0]])
    asked = [*options(topics.bootstrap, topic, tmp_path), "--rejected-topic", aside]
    checkpoint = tmp_path / "checkpoint" / "page_views"
    # Fifty batches and more: killed after the second, with the others to come.
    submit_and_kill(
        "page_views", tmp_path / "spark", lambda: committed(checkpoint) >= 2, *asked, "--max-offsets-per-trigger", "10"
    )
    assert committed(checkpoint) < 50, "it was killed in the middle"
    interleaved(topics, topic, [LAST])
    done = submit("page_views", tmp_path / "spark", *asked)
    assert done.code == 0, done.output + done.errors
    views = written(spark, tmp_path)
    assert len(views) == len(set(views)), "a row was written twice"
    assert set(views) == web.closed_views([*lines, LAST])
    assert done.figures["late"] == 0
    # Into a topic each goes at least once, with its reason and its place.
    found = records_of(topics.bootstrap, aside)
    assert {(value, headers["reason"]) for _, value, headers in found} == {
        (value, reason.encode()) for value, reason in REJECTED[1:3]
    }
    assert {headers["source"].rpartition(b"-")[0] for _, _, headers in found} <= {
        f"{topic}-{partition}".encode() for partition in range(2)
    }


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_topic_that_is_not_there_is_named(topics: Topics, tmp_path: Path) -> None:
    asked = options(topics.bootstrap, "no-such-topic", tmp_path)
    done = submit("page_views", tmp_path / "spark", *asked, "--rejected", str(tmp_path / "rejected"))
    assert done.code == 1
    (told,) = [line for line in done.output.splitlines() if line.startswith("page_views: ")]
    assert "no-such-topic" in told

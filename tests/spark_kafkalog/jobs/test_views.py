"""Test what the job `page_views` counts and sets aside: times of wrong clocks, and sizes that are too large."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_kafkalog.jobs import page_views
from tests.spark_kafkalog.jobs import web

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1


def line(time: datetime, size: int = 10) -> bytes:
    made = web.PERFECT % (b"h", time.strftime("%d/%b/%Y:%H:%M:%S +0000").encode(), b"/")
    return made.replace(b" 200 10 ", b" 200 %d " % size)


def records(spark: SparkSession, rows: list[tuple[bytes, int | None]]) -> DataFrame:
    """Return records with these values, and timestamps in microseconds; None for a record without one."""
    frame = spark.createDataFrame([(*row, n) for n, row in enumerate(rows)], "value BINARY, made BIGINT, n INT")
    # As the source returns them: a record of Kafka before 0.10 has the time -1 ms.
    made = F.timestamp_micros(F.coalesce("made", F.lit(-1000)))
    return frame.withColumns({"timestamp": made, "timestampType": F.when(F.col("made").isNull(), -1).otherwise(0)})


def test_a_line_from_the_future_is_set_aside_whatever_its_record_says(spark: SparkSession) -> None:
    now = datetime.now(UTC)
    micros = int(now.timestamp()) * 1_000_000
    hour, year = timedelta(hours=1), timedelta(days=366)
    cases: list[tuple[bytes, int | None, str | None]] = [
        (line(now), micros, None),
        (line(now), None, None),
        (line(now + year), None, page_views.FUTURE),
        (line(now - 50 * year), micros, None),
        (line(now + 2 * hour), micros, page_views.AHEAD),
        (line(now), micros - 7_200_000_000, page_views.AHEAD),
        (line(now), -LARGEST, page_views.AHEAD),
        # A host whose clock is wrong makes the line and the record.
        (line(now + year), micros + 366 * 86_400_000_000, page_views.FUTURE),
        (line(now + year), LARGEST, page_views.FUTURE),
        # A producer that sends nanoseconds for milliseconds.
        (line(now), LARGEST, None),
    ]
    found = page_views.with_requests(records(spark, [case[:2] for case in cases])).orderBy("n").select("reason")
    assert [row.reason for row in found.collect()] == [case[2] for case in cases]


def test_sizes_that_are_too_large_are_not_added_up(spark: SparkSession) -> None:
    sent = datetime(2015, 5, 17, 10, tzinfo=UTC)
    sizes = [LARGEST, LARGEST, 10, page_views.LARGEST_SIZE]
    micros = int(sent.timestamp()) * 1_000_000
    frame = records(spark, [(line(sent, size), micros) for size in sizes])
    (row,) = page_views.page_views(frame, "1 hour", ["GET"]).collect()
    assert (row.views, row.bytes) == (len(sizes), 10 + page_views.LARGEST_SIZE)


def test_a_repeated_micro_batch_has_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise a line could be counted at first and set aside when its micro-batch is repeated."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.range(1).write.json(str(source))

    def planned() -> datetime:
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        rows = spark.readStream.schema("id BIGINT").json(str(source)).select(F.current_timestamp().alias("now"))
        query = (
            rows.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(checkpoint))
        )
        query.trigger(availableNow=True).start().awaitTermination()
        (row,) = spark.read.parquet(str(out)).collect()
        found: datetime = row.now
        return found

    first = planned()
    shutil.rmtree(checkpoint / "commits")
    assert planned() == first

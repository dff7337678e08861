"""Tests of how a job's queries begin and end, in a real session."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.base import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_kafkalog.jobs import application, enrich
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.jobs.submitting import committed
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def writer(reads: Reads, topic: str, directory: Path, name: str, **columns: Any) -> Any:
    frame = reads.stream(subscribe=topic, startingOffsets="earliest").observe("rows", F.count(F.lit(1)).alias(name))
    return (
        frame.withColumns({key: F.expr(text) for key, text in columns.items()})
        .writeStream.format("parquet")
        .option("path", str(directory / name))
        .option("checkpointLocation", str(directory / f"checkpoint-{name}"))
        .queryName(name)
        .trigger(processingTime="200 milliseconds")
    )


def test_a_signal_ends_the_queries_in_good_order(
    spark: SparkSession, reads: Reads, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("stopped", 2)
    topics.produce(topic, numbers(100))
    names = ["one", "two"]
    before = signal.getsignal(signal.SIGTERM)

    def stop_when_both_have_read() -> None:
        try:
            wait_until(lambda: all(committed(tmp_path / f"checkpoint-{name}") for name in names), "both have read")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    stopping = threading.Thread(target=stop_when_both_have_read)
    figures = application.Figures()
    stopping.start()
    application.run_queries([writer(reads, topic, tmp_path, name) for name in names], figures)
    stopping.join()
    assert figures.sums["one"] == figures.sums["two"] == 100
    assert not spark.streams.active
    assert signal.getsignal(signal.SIGTERM) is before
    for name in names:
        assert spark.read.parquet(str(tmp_path / name)).count() == 100


@pytest.mark.exhaustive
def test_the_others_end_with_a_query_that_fails(
    spark: SparkSession, reads: Reads, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("failing")
    topics.produce(topic, [b"no number"])
    writers = [
        writer(reads, topic, tmp_path, "good"),
        writer(reads, topic, tmp_path, "bad", failing="raise_error('it is none')"),
    ]
    with pytest.raises(StreamingQueryException, match="it is none"):
        application.run_queries(writers, application.Figures())
    assert not spark.streams.active


def test_a_query_that_fails_just_before_a_signal_has_failed(
    spark: SparkSession, reads: Reads, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("failing")
    topics.produce(topic, [b"no number"])
    bad = writer(reads, topic, tmp_path, "bad", failing="raise_error('it is none')")
    good = writer(reads, topic, tmp_path, "good")

    class AfterTheOther:
        """Starts the good query when the other has failed and a signal has come."""

        def start(self) -> Any:
            wait_until(lambda: not spark.streams.active, "the other has failed")
            os.kill(os.getpid(), signal.SIGTERM)
            return good.start()

    with pytest.raises(StreamingQueryException, match="it is none"):
        application.run_queries([bad, AfterTheOther()], application.Figures())  # type: ignore[list-item]
    assert not spark.streams.active


def test_a_record_that_is_too_large_is_told_with_the_option_of_the_job(
    spark: SparkSession, topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    room = {"max.message.bytes": "3000000"}
    topic, to = topics.create("large", config=room), topics.create("enriched", config=room)
    topics.produce(topic, [b'{"a":"' + b"x" * (1 << 20) + b'"}'], config={"message.max.bytes": 3_000_000})
    table = tmp_path / "table.csv"
    table.write_text("key,value\n1,2\n")
    words = ["--bootstrap-server", topics.bootstrap, "--topic", topic, "--to", to, "--format", "json", "--on", "$.b"]
    words += ["--lookup", str(table), "--rejected", str(tmp_path / "rejected"), "--json"]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    assert enrich.main(words) == application.FAILED
    assert "larger than --producer-property max.request.size (1048576): raise that" in capsys.readouterr().err
    assert enrich.main([*words, "--producer-property", "max.request.size=2000000"]) == application.OK
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["written"] == 1


def test_one_that_does_not_start_stops_the_ones_before(
    spark: SparkSession, reads: Reads, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("starting")
    good = writer(reads, topic, tmp_path, "good")
    with pytest.raises(Exception, match=r"already active|Cannot start query"):
        application.run_queries([good, writer(reads, topic, tmp_path, "good")], application.Figures())
    assert not spark.streams.active

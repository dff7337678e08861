"""Test that the examples of docs/reference/sink.md, README.md and the tutorial run unchanged, one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.config import ClientConfig
from kafkalog.client.producer import Producer
from tests.spark_kafkalog.conftest import Reads
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.sources.pages import run_page

CONF = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.mark.timeout(600)
def test_examples(spark: SparkSession, start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    address = start_broker().address
    before = spark.conf.get(CONF)
    assert before is not None
    try:
        run_page("reference/sink.md", address, blocks=5, replaced={"/tmp/": f"{tmp_path}/"})
        assert spark.conf.get(CONF) == "2147483647"
    finally:
        spark.conf.set(CONF, before)
    reads = Reads(spark, address)

    def written(topic: str) -> list[tuple[str, str]]:
        found = reads.batch(subscribe=topic, **{"kafka.isolation.level": "read_committed"})
        rows = found.selectExpr("cast(key AS STRING)", "cast(value AS STRING)").collect()
        return sorted((row[0], row[1]) for row in rows)

    events = sorted((str(number), f"row {number % 10}") for number in range(1000))
    assert written("events") == events
    assert written("shouting") == written("shouting-once") == [(key, value.upper()) for key, value in events]
    # By the batch, exactly once; and by the stream's state.
    assert written("counts") == sorted([(f"ROW {number}", "100") for number in range(10)] * 2)


@pytest.mark.timeout(600)
def test_readme(spark: SparkSession, start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    address = start_broker().address
    with Admin(ClientConfig.from_dict({"bootstrap.servers": address})) as admin:
        admin.create_topics([NewTopic("words", 4, 1)])
    with Producer({"bootstrap.servers": address}) as producer:
        for number in range(100):
            producer.send("words", b"a line", key=b"%d" % number)
    run_page("../README.md", address, blocks=1, replaced={"out/words": f"{tmp_path}/words", "out/ch": f"{tmp_path}/ch"})
    assert spark.read.parquet(f"{tmp_path}/words").count() == 100


@pytest.mark.timeout(600)
def test_tutorial(
    spark: SparkSession, start_broker: Callable[..., KafkalogBroker], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = start_broker().address
    with Producer({"bootstrap.servers": address}) as producer:
        producer.send_values("lines", [b"a line"] * 100)
    run_page("tutorial/first-stream.md", address, blocks=1, replaced={'"first-stream/': f'"{tmp_path}/'})
    assert capsys.readouterr().out.endswith("100 rows\n")

"""Tests of the sink's options: names, defaults, and the messages for refused ones."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql.types import StructType

from kafkalog.records.compression import Codec
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.source import KafkalogDataSource

BASE = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


def parse(**extra: str) -> SinkOptions:
    return SinkOptions.parse(BASE | extra)


def test_defaults_are_those_of_kafkas_producer() -> None:
    options = parse()
    assert options.topic == "t"
    producer = options.producer
    assert producer.client.bootstrap_servers == (("localhost", 9092),)
    assert (producer.acks, producer.idempotence, producer.max_in_flight) == (-1, True, 5)
    assert (producer.batch_size, producer.linger, producer.compression) == (16384, 0.0, Codec.NONE)
    assert (producer.max_request_size, producer.buffer_memory) == (1 << 20, 32 << 20)
    assert (producer.delivery_timeout, producer.max_block, producer.retries) == (120.0, 60.0, 0x7FFFFFFF)


def test_properties_of_the_producer() -> None:
    options = parse(
        **{
            "KAFKA.acks": "1",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "5",
            "kafka.batch.size": "1000",
            "kafka.max.request.size": "5000",
            "kafka.delivery.timeout.ms": "45000",
            "kafka.linger.ms": "5",
        }
    ).producer
    assert (options.acks, options.idempotence) == (1, False)
    assert (options.compression, options.compression_level) == (Codec.ZSTD, 5)
    assert (options.batch_size, options.batch_limit, options.max_request_size) == (1000, 1000, 5000)
    assert options.delivery_timeout == 45.0


def test_the_topic_is_trimmed_and_may_be_a_column() -> None:
    assert parse(topic=" a ").topic == "a"
    assert SinkOptions.parse({"kafka.bootstrap.servers": "h:1"}).topic is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.key.serializer": "x"}, r"'key\.serializer' is not supported as keys are serialized"),
        ({"kafka.Value.Serializer": "x"}, r"'value\.serializer' is not supported as value are serialized"),
        ({"kafka.partitioner.class": "x"}, r"'partitioner\.class' is not supported.*column 'partition'"),
        ({"kafka.interceptor.classes": "x"}, r"'interceptor\.classes' is not supported"),
        ({"kafka.bootstrap.servers": " "}, r"Option 'kafka\.bootstrap\.servers' must be specified"),
        ({"kafka.acks": "2"}, r"kafka\.acks=2: expected all, -1, 0 or 1"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "needs acks=all"),
        ({"kafka.compression.type": "brotli"}, r"kafka\.compression\.type=brotli"),
        ({"topic": " "}, "Option 'topic' is empty"),
    ],
)
def test_what_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse(**given)


def test_no_broker_is_named() -> None:
    with pytest.raises(OptionsError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        SinkOptions.parse({"topic": "t"})


def test_a_misspelt_option_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse(topics="t", includeHeaders="true", checkpointLocation="/c", **{"kafka.linger": "5"})
    assert [record.getMessage() for record in caplog.records] == [
        "Option topics is not known and has no effect; did you mean topic?",
        "Option kafka.linger is not known and has no effect",
    ]


def test_a_sink_s_options_are_no_source_s() -> None:
    """The data source takes both, and asks for a source's only when it is to be one."""
    source = KafkalogDataSource(dict(BASE))
    with pytest.raises(OptionsError, match="One of the following options must be specified for Kafka source"):
        source.schema()
    reader = source.streamReader(StructType())
    with pytest.raises(OptionsError, match="One of the following options must be specified for Kafka source"):
        reader.initialOffset()
    with pytest.raises(OptionsError, match="consumer"):
        KafkalogDataSource({"subscribe": "t"}).schema()

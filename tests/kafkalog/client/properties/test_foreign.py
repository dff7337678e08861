"""Tests of properties of other clients: one warning says which of them have no effect, and why."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kafkalog.client import Consumer, Producer
from kafkalog.client.admin import Admin
from kafkalog.client.config import property_names
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.properties.foreign import IGNORED, _words, warnings_about
from kafkalog.client.properties.options import declared
from kafkalog.java_properties import parse_properties
from peers import require
from peers.brokers.kafka import VERSIONS, kafka_classpath
from peers.toolchains import java

OBJECTS = {
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "partitioner.class"),
    *("interceptor.classes", "partition.assignment.strategy"),
    *("config.providers", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
}
"""Properties that the producer and the consumer read by themselves."""


def heeded() -> set[str]:
    return {*property_names(), *declared(ProducerConfig), *declared(ConsumerConfig), *OBJECTS}


def test_one_line_about_all_of_them() -> None:
    names = ["ssl.provider", "metric.reporters", "fetch.min.bites", "ssl.trustmanager.algorithm"]
    ignored, unknown = warnings_about(names, "Option", "kafka.")
    assert ignored == (
        "without effect here: kafka.metric.reporters (these clients report no metrics); "
        "kafka.ssl.provider, kafka.ssl.trustmanager.algorithm (OpenSSL does this)"
    )
    assert unknown == "Option kafka.fetch.min.bites is not known and has no effect"
    assert warnings_about([]) == []


LINES = """\
ssl.keystore.key=-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
sasl.oauthbearer.token=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0
eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl
hunter
fetch.min.bites=1
ack=all
linger=5
"""
UNSHOWN = (
    "{} more without effect, whose names may be parts of a value and are not shown; a value that goes on in the next "
    "line needs a backslash at the end of its line"
)


def test_lines_of_a_value_are_not_shown() -> None:
    unknown = parse_properties(LINES).keys() - {"ssl.keystore.key", "sasl.oauthbearer.token"}
    assert warnings_about(unknown) == [
        "the property ack is not known and has no effect",
        "the property fetch.min.bites is not known and has no effect",
        "the property linger is not known and has no effect",
        UNSHOWN.format(3),
    ]


def test_names_of_one_word_are_judged_by_the_first_words_of_others() -> None:
    assert {re.split("[._]", name)[0] for name in heeded()} <= set(_words())


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_clients_say_it_once(
    client: Callable[[dict[str, str]], AbstractContextManager[object]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    given = {"bootstrap.servers": "127.0.0.1:1", "ssl.provider": "x", "fetch.min.bites": "1"}
    with client(given):
        pass
    assert [record.message for record in caplog.records] == [
        "without effect here: ssl.provider (OpenSSL does this)",
        "the property fetch.min.bites is not known and has no effect",
    ]


def test_pauses_between_connections_are_the_producers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    given = {"bootstrap.servers": "127.0.0.1:1", "reconnect.backoff.ms": "100"}
    with Producer(given):
        pass
    assert caplog.records == []
    with Consumer(given):
        pass
    assert [record.message for record in caplog.records] == [
        "without effect here: reconnect.backoff.ms (only producers heed it; other clients pause for retry.backoff.ms)"
    ]


def test_what_has_an_effect_is_not_among_them() -> None:
    assert not set(IGNORED) & set(property_names())


@pytest.mark.peer
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_property_of_java_s_clients_is_known(version: str) -> None:
    require(java.missing())
    source = str(Path(__file__).with_name("ClientProperties.java"))
    names = set(java.run_java(kafka_classpath(version), source).split())
    assert len(names) > 100
    assert names - heeded() - set(IGNORED) == set()

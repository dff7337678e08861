"""Test which topics' metadata the producer asks for, when, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.producer import Producer
from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalog.records.batch import iter_headers
from tests.support.scripted import ScriptedBroker, metadata, taken

DEADLINE_S = 60.0


class Site:
    """A broker that leads the only partition of each topic; `codes` are the errors of topics in metadata.

    Attributes:
        asked: The requests for metadata, in order.
        sequences: The first sequence number of each batch, by topic.
    """

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.asked: list[MetadataRequest] = []
        self.sequences: dict[str, list[int]] = {}
        self.broker = ScriptedBroker(
            {
                MetadataRequest: self._describe,
                InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
                ProduceRequest: self._take,
            }
        )

    def _take(self, request: ProduceRequest) -> ProduceResponse:
        for topic in request.topic_data:
            for data in topic.partition_data:
                found = [header.base_sequence for _, header in iter_headers(data.records or b"")]
                self.sequences.setdefault(topic.name, []).extend(found)
        return taken(request)

    def names(self, place: int) -> list[str]:
        """Return the topics in a request for metadata."""
        return [topic.name or "" for topic in self.asked[place].topics or []]

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        self.asked.append(request)
        names = [topic.name or "" for topic in request.topics or []]
        found = metadata({1: self.broker}, {(name, 0): 1 for name in names if name not in self.codes})
        found.topics += [
            MetadataResponseTopic(name=name, error_code=self.codes[name]) for name in names if name in self.codes
        ]
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    with made.broker:
        yield made


@pytest.fixture
def start(site: Site) -> Iterator[Callable[..., Producer]]:
    started: list[Producer] = []

    def make(**properties: Any) -> Producer:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        started.append(Producer({"bootstrap.servers": site.broker.address, **named}))
        return started[-1]

    yield make
    for producer in started:
        producer.close(0.0)


def test_an_unknown_error_of_one_topic_fails_no_other(site: Site, start: Callable[..., Producer]) -> None:
    """As of a newer broker."""
    site.codes["bad"] = 999
    producer = start()
    error = producer.send("bad", b"x").exception(DEADLINE_S)
    assert isinstance(error, KafkaError)
    assert "topic bad" in str(error)
    assert "999" in str(error)
    producer.send("good", b"x").result(DEADLINE_S)

"""Test that threads that send tables with one producer do not wait for each other, a delivery callback among them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafkalog.client.producer import Producer, ProducerClosedError, RecordMetadata
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.support.scripted import ScriptedBroker, metadata, taken
from tests.support.waiting import wait_until

DEADLINE_S = 60.0
MEMORY = 100_000
"""The memory that leaves room for one more row while the other thread waits for room for a batch of `batch.size`."""


class Site:
    """A broker that leads topic t, does not know topic u, and appends nothing before `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: set[str | None] = set()
        self.broker = ScriptedBroker(
            {
                MetadataRequest: self._describe,
                ProduceRequest: self._append,
                InitProducerIdRequest: lambda request: InitProducerIdResponse(producer_id=7),
            }
        )

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        answer = metadata({1: self.broker}, {("t", 0): 1})
        self.asked |= {topic.name for topic in request.topics or ()}
        if "u" in self.asked:
            answer.topics.append(MetadataResponseTopic(name="u", error_code=5))
        return answer

    def _append(self, request: ProduceRequest) -> ProduceResponse:
        self.go.wait(DEADLINE_S)
        return taken(request)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with site.broker:
        yield site
        site.go.set()


def table(rows: int) -> pa.Table:
    return pa.table({"value": ["x" * 100] * rows})


@pytest.mark.parametrize("lacks", ["memory", "metadata"])
def test_a_callback_sends_while_another_thread_waits(site: Site, lacks: str) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    limits = {"buffer.memory": MEMORY, "max.block.ms": 1_000_000_000, "retry.backoff.ms": 10}

    def call_back(sent: RecordMetadata | None, error: Exception | None) -> None:
        try:
            answers.put(producer.send_arrow("t", table(1)))
        except Exception as failure:
            answers.put(failure)

    def send() -> None:
        try:
            producer.send_arrow("t" if lacks == "memory" else "u", table(10_000))
        except ProducerClosedError:
            # Topic u is never found.
            return

    producer = Producer({"bootstrap.servers": site.broker.address, **limits})
    other = threading.Thread(target=send)
    try:
        producer.send("t", b"first", on_delivery=call_back)
        wait_until(lambda: site.broker.seen[ProduceRequest] == 1, "the first record is sent")
        other.start()
        if lacks == "memory":
            wait_until(lambda: producer.metrics()["waiting-threads"] == 1, "the thread waits for memory")
        else:
            wait_until(lambda: "u" in site.asked, "the thread waits for metadata")
        site.go.set()
        (future,) = answers.get(timeout=DEADLINE_S)
        assert future.result(DEADLINE_S) == (0, 0)
    finally:
        site.go.set()
        producer.close(0.0 if lacks == "metadata" else DEADLINE_S)
        other.join(DEADLINE_S)
    assert not other.is_alive()

"""Test that `wakeup` ends calls that wait for a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkalog.client.consumer import Consumer, WakeupError
from kafkalog.client.types import OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.schema import Request
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.support.scripted import ScriptedBroker, metadata
from tests.support.waiting import wait_until

TP = TopicPartition("t", 0)
QUERIES: dict[str, tuple[Callable[[Consumer], Any], Any]] = {
    "partitions_for": (lambda consumer: consumer.partitions_for("t"), [TP]),
    "offsets_for_times": (lambda consumer: consumer.offsets_for_times({TP: 5}), {TP: OffsetAndTimestamp(7, 5, -1)}),
    "beginning_offsets": (lambda consumer: consumer.beginning_offsets([TP]), {TP: 7}),
    "end_offsets": (lambda consumer: consumer.end_offsets([TP]), {TP: 7}),
}


class Late:
    """A broker that answers requests of one class only after `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.late: type[Request] = MetadataRequest
        self.broker = ScriptedBroker({MetadataRequest: self._describe, ListOffsetsRequest: self._offsets})

    def _wait(self, cls: type[Request]) -> None:
        if cls is self.late:
            self.go.wait(DEADLINE_S)

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        self._wait(MetadataRequest)
        return metadata({1: self.broker}, {TP: 1})

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        self._wait(ListOffsetsRequest)
        found = ListOffsetsPartitionResponse(partition_index=0, offset=7, timestamp=5)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


@pytest.fixture
def late() -> Iterator[Late]:
    late = Late()
    with late.broker:
        yield late
        late.go.set()


@pytest.mark.parametrize(
    ("name", "waits_for"),
    [
        *((name, MetadataRequest) for name in QUERIES),
        *((name, ListOffsetsRequest) for name in QUERIES if name != "partitions_for"),
    ],
)
def test_a_query_that_waits(late: Late, name: str, waits_for: type[Request]) -> None:
    query, answer = QUERIES[name]
    late.late = waits_for
    patient = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), round(DEADLINE_S * 10_000))
    with Consumer({"bootstrap.servers": late.broker.address, **patient}) as consumer, ThreadPoolExecutor(1) as pool:
        call = pool.submit(query, consumer)
        wait_until(lambda: late.broker.seen[waits_for] == 1, "the broker is asked")
        consumer.wakeup()
        try:
            assert isinstance(call.exception(DEADLINE_S), WakeupError)
        finally:
            late.go.set()
        assert query(consumer) == answer
        consumer.wakeup()
        with pytest.raises(WakeupError):
            query(consumer)
        assert query(consumer) == answer

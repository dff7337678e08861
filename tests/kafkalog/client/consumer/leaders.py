"""Leaders of scripted brokers, for tests of consumers: silent ones, and batches that are damaged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkalog.protocol.schema import Request
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.support.scripted import Halted, ScriptedBroker, api_versions, metadata

TP = TopicPartition("t", 0)
SILENT_LEADS = (TP, TopicPartition("t", 2))
OTHER_LEADS = (TopicPartition("t", 1),)


def batch(first: int, count: int = 2) -> bytes:
    records = [Record(first + n, 0, None, b"v%d" % (first + n), ()) for n in range(count)]
    return bytes(encode_batch(records, base_offset=first, leader_epoch=0))


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


class Leader:
    """A broker that holds two records of each partition; `silent` requests wait until it is `released`.

    With `halting` half of their answers comes before.
    """

    def __init__(self, silent: type[Request] | None = None, *, halting: bool = False) -> None:
        self.released = threading.Event()
        self.validated: list[list[int]] = []
        self._silent, self._halting = silent, halting
        answers: dict[type[Request], Callable[[Any], Any]] = {
            ApiVersionsRequest: lambda request: api_versions(OffsetForLeaderEpochRequest),
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._offsets,
            OffsetForLeaderEpochRequest: self._epochs,
        }
        self.broker = ScriptedBroker({cls: self._waiting(cls, answer) for cls, answer in answers.items()})

    def _waiting(self, cls: type[Request], answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def handle(request: Any) -> Any:
            if cls is self._silent and self._halting:
                return Halted(answer(request), self.released)
            if cls is self._silent:
                self.released.wait(DEADLINE_S)
            return answer(request)

        return handle

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        answer = FetchResponse()
        for topic in request.topics:
            found = FetchableTopicResponse(topic=topic.topic)
            for each in topic.partitions:
                left = memoryview(batch(0)) if each.fetch_offset < 2 else None
                found.partitions.append(
                    PartitionData(partition_index=each.partition, high_watermark=2, last_stable_offset=2, records=left)
                )
            answer.responses.append(found)
        if all(each.records is None for topic in answer.responses for each in topic.partitions):
            self.released.wait(0.1)
        return answer

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=0)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        asked = sorted(each.partition for topic in request.topics for each in topic.partitions)
        self.validated.append(asked)
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic="t",
                    partitions=[EpochEndOffset(partition=number, leader_epoch=0, end_offset=2) for number in asked],
                )
            ]
        )


@contextmanager
def two_leaders(silent: type[Request], *, halting: bool = False) -> Iterator[tuple[Leader, Leader]]:
    """A leader that answers everything but `silent`, or half of it, and one that answers that, too."""
    quiet, other = Leader(silent, halting=halting), Leader()
    brokers = {0: quiet.broker, 1: other.broker}
    leaders = {(tp.topic, tp.partition): 0 if tp in SILENT_LEADS else 1 for tp in (*SILENT_LEADS, *OTHER_LEADS)}
    for broker in brokers.values():
        broker.handlers[MetadataRequest] = lambda request: metadata(brokers, leaders, epoch=1)
    with quiet.broker, other.broker:
        try:
            yield quiet, other
        finally:
            quiet.released.set()
            other.released.set()

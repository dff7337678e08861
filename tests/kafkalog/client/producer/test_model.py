"""Test the idempotent producer with a model of a leader's producer state that fails at random, by seeds.

Faults that are rare with a real leader happen here in one request of five: the leader moves for a moment, it answers a
time-out after it has appended, the connection breaks before or after the append, the batch is too large, a record is
refused permanently, the topic is created again. Acknowledged records must be in the log once and in order.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest

from kafkalog.client.producer import DeliveryFuture, Producer
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalog.records.batch import decode_batch
from tests.support.amount import mostly_exhaustive
from tests.support.scripted import ScriptedBroker

DEADLINE_S = 120.0
PARTITIONS = 3
MOST_RECORDS = 5
"""The leader refuses larger batches."""
EACH_REFUSED = 50
"""Every Nth record is refused permanently, together with its batch."""


@dataclass
class ProducerState:
    """The state of one producer in one partition: ProducerStateEntry."""

    epoch: int
    last_sequence: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """Base sequence, number of records and base offset of the last batches."""


class Leader:
    """The leader of all partitions of one topic."""

    def __init__(self, random: Random, *, refuses: bool, recreates: bool) -> None:
        self.logs: dict[int, list[bytes]] = defaultdict(list)
        self.created = 1
        self._random = random
        self._refuses = refuses
        self._recreates = recreates
        self._states: dict[tuple[int, int], ProducerState] = {}
        self._lock = threading.Lock()
        self._requests = 0
        self._ids = count(100)
        self.broker = ScriptedBroker(
            {
                ProduceRequest: self._produce,
                InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=next(self._ids)),
                MetadataRequest: lambda _: self._metadata(),
            }
        )

    def _metadata(self) -> MetadataResponse:
        leads = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(PARTITIONS)]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)],
            topics=[MetadataResponseTopic(name="t", topic_id=uuid.UUID(int=self.created), partitions=leads)],
        )

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        with self._lock:
            self._requests += 1
            if self._recreates and self._requests == 60:
                self.logs.clear()
                self._states.clear()
                self.created += 1
            answers = [self._partition(data) for data in request.topic_data[0].partition_data]
        if None in answers:
            return None
        found = [each for each in answers if each is not None]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=found)])

    def _partition(self, data: PartitionProduceData) -> PartitionProduceResponse | None:
        """The answer for a batch; None: the connection breaks."""
        raw = bytes(data.records or b"")
        _, records = decode_batch(raw)
        chance = self._random.random()
        code, offset = ErrorCode.NONE, -1
        if chance < 0.10:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif chance < 0.14:
            return None
        elif len(records) > MOST_RECORDS:
            code = ErrorCode.MESSAGE_TOO_LARGE
        elif self._refuses and any(int(record.value or b"0") % EACH_REFUSED == 7 for record in records):
            code = ErrorCode.INVALID_RECORD
        else:
            code, offset = self._append(data.index, raw)
            if chance < 0.18:
                return None
            if chance < 0.22 and not code:
                code, offset = ErrorCode.REQUEST_TIMED_OUT, -1
        return PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset)

    def _append(self, partition: int, raw: bytes) -> tuple[ErrorCode, int]:
        header, records = decode_batch(raw)
        state = self._states.get((partition, header.producer_id))
        if state is not None and header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if state is not None and header.producer_epoch == state.epoch:
            for sequence, size, offset in state.batches:
                if (sequence, size) == (header.base_sequence, len(records)):
                    return ErrorCode.NONE, offset
            if header.base_sequence != state.last_sequence + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        elif state is not None and header.base_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        else:
            # A leader that knows nothing of the producer takes any number for its first.
            state = ProducerState(header.producer_epoch, -1)
            self._states[partition, header.producer_id] = state
        log = self.logs[partition]
        base_offset = len(log)
        log += [record.value or b"" for record in records]
        state.last_sequence = header.base_sequence + len(records) - 1
        state.batches.append((header.base_sequence, len(records), base_offset))
        return ErrorCode.NONE, base_offset


def send(producer: Producer, random: Random, start: int) -> list[list[tuple[bytes, DeliveryFuture]]]:
    """900 records: what was sent to each partition, and its future."""
    sent: list[list[tuple[bytes, DeliveryFuture]]] = [[] for _ in range(PARTITIONS)]
    for number in range(start, start + 900):
        partition, value = number % PARTITIONS, b"%06d" % number
        sent[partition].append((value, producer.send("t", value, partition=partition)))
        if random.random() < 0.05:
            # Sometimes a batch is small, sometimes several are on their way.
            sent[partition][-1][1].exception(DEADLINE_S)
    producer.flush(DEADLINE_S)
    return sent


@pytest.fixture(params=mostly_exhaustive(range(6), 2))
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)


@pytest.mark.parametrize("refuses", [False, True], ids=["", "some refused"])
@pytest.mark.parametrize("recreates", [False, True], ids=["", "created again"])
def test_once_and_in_order(random: Random, refuses: bool, recreates: bool) -> None:
    leader = Leader(random, refuses=refuses, recreates=recreates)
    quick = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 5, "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 3}
    with leader.broker, Producer({"bootstrap.servers": leader.broker.address, "batch.size": 200, **quick}) as producer:
        if recreates:
            # Of what is on its way then some is in the first topic, and some may be in the wrong order or twice: a
            # leader without the producer's state takes any number, and then those before it are refused.
            send(producer, random, 900)
            assert leader.created == 2
        before = {partition: len(leader.logs[partition]) for partition in range(PARTITIONS)}
        sent = send(producer, random, 0)
    for partition, records in enumerate(sent):
        whole = leader.logs[partition]
        log = whole[before[partition] :]
        good = [value for value, future in records if future.exception() is None]
        bad = {value for value, future in records} - set(good)
        assert not bad or refuses
        assert log == good, "all that was acknowledged is there, in its order, and nothing else"
        offsets = [future.result().offset for value, future in records if value not in bad]
        assert offsets == list(range(before[partition], len(whole)))

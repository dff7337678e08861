"""Test how a produced batch goes from its handler to its acknowledgement, also in message formats v0 and v1."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.broker.replica.in_process import InProcess, Wire, with_broker
from tests.support.requests.transactions import AGAIN

RECORDS = [Record(at, 1_700_000_000_000, b"k", b"v" * 50) for at in range(5)]
MANY = [Record(at, 1_700_000_000_000, b"k", b"v" * 1_000_000) for at in range(10)]
"""More than the loop's thread checks itself."""
LEGACY = (
    "broker/log/append/legacy/",
    "broker/api/produce/produce_legacy.py",
    "kafkalog/records/any_format.py",
    "kafkalog/records/kernels/plain/upgrading.py",
    "kafkalog/records/legacy/",
)
DOOR, LAST = "broker/api/produce/produce.py", "broker/log/segment/segment.py"
CHECK = "kafkalog/records/validate.py"
ROOT = str(Path(__file__).parents[4]) + "/"


class Calls:
    """The files, of this repository, whose functions threads call: this one's, and all that begin later."""

    def __init__(self) -> None:
        self._is_on = False
        self.files: set[str] = set()
        self.files_of_workers: set[str] = set()
        """Those that other threads than this one call."""
        self._own = threading.get_ident()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if self._is_on and event == "call" and path.startswith(ROOT):
            name = path.removeprefix(ROOT)
            self.files.add(name)
            if threading.get_ident() != self._own:
                self.files_of_workers.add(name)

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    @property
    def legacy(self) -> set[str]:
        return {name for name in self.files if name.startswith(LEGACY)}


def with_calls(directory: Path, work: Callable[[InProcess, Calls], Coroutine[Any, Any, None]]) -> None:
    """Run `work` with a broker whose threads, the workers' too, are all watched."""
    calls = Calls()
    before, before_of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        with_broker(directory, lambda broker: work(broker, calls), {"message.max.bytes": str(16 << 20)})
    finally:
        sys.setprofile(before)
        threading.setprofile(before_of_threads)


def produce(records: bytes | bytearray, transactional_id: str | None = None) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(records))
    topics = [TopicProduceData(name="t", partition_data=[data])]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=topics)


async def new_producer(wire: Wire, transactional_id: str | None) -> tuple[int, int]:
    """Id and epoch of a producer, whose transaction, if it has an id for these, has the partition."""
    if transactional_id is not None:
        await until_done(wire, FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = await until_done(wire, asked, 4)
    if transactional_id is not None:
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=answer.producer_id,
            v3_and_below_producer_epoch=answer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        (topic,) = (await wire.exchange(adding, 3)).results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == 0
    return answer.producer_id, answer.producer_epoch


async def until_done(wire: Wire, request: Any, version: int) -> Any:
    """Ask until the coordinator is there."""
    while True:
        answer = await wire.exchange(request, version)
        if ErrorCode(answer.error_code) not in AGAIN:
            assert answer.error_code == 0
            return answer
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("kind", ["plain", "idempotent", "transactional"])
def test_a_batch_passes_no_code_of_older_formats(tmp_path: Path, version: int, codec: Codec, kind: str) -> None:
    async def work(broker: InProcess, calls: Calls) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        await wire.exchange(produce(encode_batch(RECORDS)), version)
        name = "a" if kind == "transactional" else None
        producer, epoch = (-1, -1) if kind == "plain" else await new_producer(wire, name)
        batch = encode_batch(
            RECORDS,
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=-1 if kind == "plain" else 0,
            is_transactional=kind == "transactional",
        )
        with calls.watched():
            answer = await wire.exchange(produce(batch, name), version)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 5)
        assert {DOOR, CHECK, LAST} <= calls.files
        assert calls.legacy == set()

    with_calls(tmp_path, work)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_nor_does_one_that_a_worker_checks(tmp_path: Path, codec: Codec) -> None:
    async def work(broker: InProcess, calls: Calls) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        with calls.watched():
            answer = await wire.exchange(produce(encode_batch(MANY, codec=codec)), 9)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 0)
        assert CHECK in calls.files_of_workers
        assert {DOOR, LAST} <= calls.files
        assert calls.legacy == set()

    with_calls(tmp_path, work)


def test_an_older_set_does(tmp_path: Path) -> None:
    """The proof that the trace sees it, where it is passed."""

    async def work(broker: InProcess, calls: Calls) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        with calls.watched():
            answer = await wire.exchange(produce(encode_message_set(RECORDS, magic=1)), 2)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 0)
        assert {DOOR, LAST} <= calls.files
        assert {
            "broker/api/produce/produce_legacy.py",
            "broker/log/append/legacy/message_set_appender.py",
            "kafkalog/records/legacy/message_set.py",
        } <= calls.legacy

    with_calls(tmp_path, work)


def test_an_older_set_that_a_worker_checks_does(tmp_path: Path) -> None:
    """The same proof for the workers' threads."""

    async def work(broker: InProcess, calls: Calls) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        with calls.watched():
            answer = await wire.exchange(produce(encode_message_set(MANY, magic=1, codec=Codec.GZIP)), 2)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert "kafkalog/records/legacy/upgrade.py" in calls.files_of_workers & calls.legacy

    with_calls(tmp_path, work)

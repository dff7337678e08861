"""The way of a produced batch from its handler to its acknowledgement: message formats v0 and v1 stand beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.replica.in_process import InProcess, with_broker

RECORDS = [Record(at, 1_700_000_000_000, b"k", b"v" * 50) for at in range(5)]
LEGACY = ("broker/log/append/legacy/", "broker/api/produce/produce_legacy.py", "kafkalog/records/legacy/message_set.py",
          "kafkalog/records/any_format.py", "kafkalog/records/legacy/convert.py")  # fmt: skip
DOOR, LAST = "broker/api/produce/produce.py", "broker/log/segment/segment.py"


@contextmanager
def called_files() -> Iterator[set[str]]:
    """The files, of this repository, whose functions this thread calls."""
    root = str(Path(__file__).parents[2]) + "/"
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found.add(frame.f_code.co_filename.removeprefix(root))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def produce(records: bytes | bytearray) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(records))
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_passes_no_code_of_older_formats(tmp_path: Path, version: int, codec: Codec) -> None:
    async def work(broker: InProcess) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        await wire.exchange(produce(encode_batch(RECORDS)), version)
        with called_files() as files:
            answer = await wire.exchange(produce(encode_batch(RECORDS, codec=codec)), version)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 5)
        assert {DOOR, LAST} <= files
        assert [file for file in files if file.startswith(LEGACY)] == []

    with_broker(tmp_path, work)


def test_an_older_set_does(tmp_path: Path) -> None:
    """The proof that the trace sees it, where it is passed."""

    async def work(broker: InProcess) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        with called_files() as files:
            answer = await wire.exchange(produce(encode_message_set(RECORDS, magic=1)), 2)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 0)
        assert {
            DOOR,
            LAST,
            "broker/api/produce/produce_legacy.py",
            "broker/log/append/legacy/message_set_appender.py",
        } <= files

    with_broker(tmp_path, work)

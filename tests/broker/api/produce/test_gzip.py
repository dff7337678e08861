"""Test that a gzip batch takes the event loop no longer than its size lets expect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.api.produce import produce
from broker.log.append import validation
from kafkalog.protocol.errors import ErrorCode
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.validate import check_batch
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.wire import produce_request


def gzipped(size: int) -> bytearray:
    """Return a batch of one value of so many zeros. gzip makes a thousandth of them."""
    return bytearray(encode_batch([Record(0, 0, None, bytes(size))], codec=Codec.GZIP))


@pytest.mark.parametrize(("size", "on_worker"), [(2_000, False), (1 << 20, True), (16 << 20, True)])
def test_a_batch_that_expands_further_is_decompressed_by_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, on_worker: bool
) -> None:
    threads: list[bool] = []

    def noted(*args: Any, **given: Any) -> Any:
        found = check_batch(*args, **given)
        threads.append(threading.current_thread() is not threading.main_thread())
        return found

    monkeypatch.setattr("broker.log.append.validation.check_batch", noted)

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t", max_message_bytes=str(64 << 20))
        wire = await broker.connect()
        answer = await wire.exchange(produce_request("t", {0: gzipped(size)}, -1), 9)
        (result,) = answer.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
        assert partition.log.log_end_offset == 1
        assert threads == [on_worker]

    with_broker(tmp_path, work)


def test_a_batch_that_no_broker_takes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "prepare_ahead", with_limit(1 << 20))
    monkeypatch.setattr(validation, "DEFAULT_MAX_SIZE", 1 << 20)

    async def work(broker: InProcess) -> None:
        await broker.create_topic("t", max_message_bytes=str(64 << 20))
        wire = await broker.connect()
        answer = await wire.exchange(produce_request("t", {0: gzipped(2 << 20)}, -1), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE

    with_broker(tmp_path, work)


def with_limit(largest: int) -> Callable[..., Any]:
    """Return `prepare_ahead` for brokers whose batches have at most so many bytes."""
    whole = validation.prepare_ahead

    def limited(*args: Any, most: int = largest) -> Any:
        return whole(*args, most=min(most, largest))

    return limited

"""Test where an import from Kafka 0.7 tells to go on after messages that could not be written."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kafkalog.client.producer
from broker.cli.log import import_0_7
from broker.log.kafka_0_7 import OldLog
from kafkalog.records.compression import Codec


class FakeProducer:
    """Take messages; those of `large` fail at once, and those of `refused` when they are flushed."""

    large = b"too large"
    refused = b"refused"

    def __init__(self, config: object) -> None:
        self.written: list[bytes] = []
        self._waiting: list[tuple[bytes, Future[Any]]] = []

    def __enter__(self) -> FakeProducer:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def send(self, topic: str, value: bytes, *, partition: int) -> Future[Any]:
        future: Future[Any] = Future()
        if value == self.large:
            future.set_exception(ValueError("larger than max.request.size"))
        else:
            self._waiting.append((value, future))
        return future

    def flush(self) -> None:
        for value, future in self._waiting:
            if value == self.refused:
                future.set_exception(ValueError("the broker refuses it"))
            else:
                future.set_result(SimpleNamespace(offset=len(self.written)))
                self.written.append(value)
        self._waiting.clear()


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    made = FakeProducer({})

    def make(config: Mapping[str, Any]) -> FakeProducer:
        return made

    monkeypatch.setattr(kafkalog.client.producer, "Producer", make)
    return made


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    import_0_7.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["import-0.7", *arguments, "--bootstrap-server", "localhost:1"])
    return int(parsed.run(parsed))


def log_of(directory: Path, *stored: tuple[Codec, list[bytes]]) -> list[int]:
    """Write stored messages, each with one or, compressed, several messages; return the offsets behind each."""
    log = OldLog.open(directory, writable=True)
    ends = []
    for codec, payloads in stored:
        log.append(payloads, codec=codec)
        ends.append(log.end)
    log.close()
    return ends


def test_a_message_that_the_producer_does_not_take_is_the_last(
    tmp_path: Path, producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = log_of(tmp_path / "t-0", *((Codec.NONE, [value]) for value in (b"one", producer.large, b"three")))
    assert run(str(tmp_path)) == 1
    assert producer.written == [b"one"]
    told = capsys.readouterr().err
    assert f"stopped behind offset {ends[0]} (byte) with 1 messages written: larger than max.request.size" in told
    assert told.endswith(f"; go on with --from-offset {ends[0]}\n")


def test_what_is_written_behind_a_message_that_is_refused_is_told(
    tmp_path: Path, producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    values = (b"one", b"two", producer.refused, b"four", producer.refused, b"six")
    ends = log_of(tmp_path / "t-0", *((Codec.NONE, [value]) for value in values))
    assert run(str(tmp_path)) == 1
    assert producer.written == [b"one", b"two", b"four", b"six"]
    told = capsys.readouterr().err
    assert f"stopped behind offset {ends[1]} (byte) with 2 messages written: the broker refuses it" in told
    assert told.endswith(f"; go on with --from-offset {ends[1]}, which writes 2 messages behind it again\n")


@pytest.mark.parametrize("kind", ["large", "refused"])
def test_it_goes_on_behind_whole_messages_of_the_log(
    tmp_path: Path, producer: FakeProducer, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    bad = getattr(producer, kind)
    ends = log_of(tmp_path / "t-0", (Codec.NONE, [b"one"]), (Codec.GZIP, [b"two", b"three", bad, b"five"]))
    assert run(str(tmp_path)) == 1
    again = [b"two", b"three"] if kind == "large" else [b"two", b"three", b"five"]
    assert producer.written == [b"one", *again]
    told = capsys.readouterr().err
    assert f"stopped behind offset {ends[0]} (byte) with 1 messages written" in told
    assert f"--from-offset {ends[0]}, which writes {len(again)} messages behind it again\n" in told

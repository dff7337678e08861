"""Test that the first bytes of a fetch tell how many bytes an offset has, in every format."""

from __future__ import annotations

import pytest

import spark_kafkalog.driver.batch_density as module
from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from spark_kafkalog.driver.batch_density import batch_density

OLD_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def records(base: int, count: int) -> list[Record]:
    return [Record(n, 1_700_000_000_000, None, b"%0100d" % n) for n in range(base, base + count)]


def wrapper(base: int, count: int, magic: int, codec: Codec = Codec.GZIP) -> bytes:
    return bytes(encode_message_set(records(base, count), magic=magic, codec=codec))


def test_a_batch_of_v2() -> None:
    batch = bytes(encode_batch(records(10, 5), base_offset=10))
    assert batch_density(memoryview(batch), 12) == len(batch) / 5
    assert batch_density(memoryview(batch), 9) == 0, "compaction has emptied the offset"
    assert batch_density(memoryview(batch[:HEADER_SIZE]), 10) == len(batch) / 5
    assert batch_density(memoryview(batch[: HEADER_SIZE - 1]), 10) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_without_compression(magic: int) -> None:
    message = bytes(encode_message_set(records(10, 1), magic=magic))
    assert batch_density(memoryview(message), 10) == len(message)
    assert batch_density(memoryview(message), 9) == 0
    assert batch_density(memoryview(message[:-1]), 10) is None


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper(magic: int, codec: Codec) -> None:
    first, second = wrapper(10, 8, magic, codec), wrapper(18, 4, magic, codec)
    assert batch_density(memoryview(first), 12) == len(first) / 8
    assert batch_density(memoryview(first + second), 12) == len(second) / 4
    assert batch_density(memoryview(first + second[:-1]), 12) == len(first) / 8


@pytest.mark.parametrize("magic", [0, 1])
def test_what_does_not_tell(magic: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = wrapper(10, 8, magic)
    assert batch_density(memoryview(alone[:-1]), 12) is None
    damaged = bytearray(alone)
    damaged[-20] ^= 1
    assert batch_density(memoryview(damaged), 12) is None
    monkeypatch.setattr(module, "MOST_UNPACKED", 100)
    assert batch_density(memoryview(alone), 12) is None

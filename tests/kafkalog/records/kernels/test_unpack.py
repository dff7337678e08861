"""Test the kernel that checks and decompresses batches against the codecs in Python, and its bounds of writing."""

from __future__ import annotations

import ctypes.util
import platform
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkalog.records.batch import CRC_AT, HEADER_SIZE, Record, encode_batch
from kafkalog.records.checksum import crc32c
from kafkalog.records.compression import Codec, compress, decompress
from kafkalog.records.errors import RecordsError
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.kernels.checked import memory
from kafkalog.records.kernels.checked.memory import Range
from kafkalog.records.kernels.compiled import native
from tests.kafkalog.records.arrow.support import _values

pytestmark = pytest.mark.usefixtures("each_build")

GUARD = 0xA5
ROOM = 100_000

patterns = st.builds(
    lambda seed, size: (seed * (size // len(seed) + 1))[:size], st.binary(min_size=1, max_size=70), st.integers(0, 400)
)
texts = st.lists(patterns | st.binary(max_size=100), max_size=12).map(b"".join)


class Unpacked:
    """One section, alone in a batch's place, through the kernel."""

    def __init__(self, codec: int, section: bytes, room: int = ROOM, **words: int) -> None:
        from kafkalog.records.kernels.compiled.unpacking import unpack_batches

        loader.load()
        # Memory of exactly that size: what reads past its end reads another object's.
        packed = np.frombuffer(bytearray(section) or bytearray(1), np.uint8)
        self.room = np.full(room + t.SLACK, GUARD, np.uint8)
        self.words = np.zeros(t.UNPACKS, np.int64)
        self.words[t.LZ4_FUNCTION] = native.lz4_address()
        self.words[[t.ROOM, t.ROOM_SIZE]] = self.room.ctypes.data, room
        self.words[[t.MOST_BYTES, t.MOST_UNPACKED]] = 1 << 30
        for name, value in words.items():
            self.words[getattr(t, name)] = value
        begin = packed.ctypes.data
        memory.lend("fetched", Range(begin, len(section)))
        memory.lend("room", Range(self.room.ctypes.data, room, writable=True))
        self.table = np.zeros((1, t.WIDTH), np.int64)
        self.table[0, [t.START, t.END, t.ATTRIBUTES]] = begin, begin + len(section), codec
        before = self.table.copy(), self.words.copy()
        self.done: bool = unpack_batches(self.table, 0, begin, self.words) == 1
        if not self.done:
            assert (self.table == before[0]).all()
            assert (self.words == before[1]).all()

    def result(self) -> bytes:
        begin, end = (int(self.table[0, each]) - self.room.ctypes.data for each in (t.START, t.END))
        assert begin == 0
        assert self.words[t.ROOM_USED] == self.words[t.UNPACKED] == self.words[t.GROUP_LENGTH] == end
        assert (self.room[end + t.SLACK :] == GUARD).all(), "written beyond the slack"
        return self.room[:end].tobytes()


@settings(max_examples=300)
@given(texts, st.sampled_from([Codec.SNAPPY, Codec.LZ4]))
@example(b"a" * 70_000, Codec.SNAPPY)
@example(bytes(range(256)) * 300, Codec.SNAPPY)
@example(bytes(range(256)) * 300, Codec.LZ4)
def test_what_comes_out_is_what_went_in(text: bytes, codec: Codec) -> None:
    section = bytes(compress(codec, text))
    if not text:
        return
    unpacked = Unpacked(codec, section)
    assert unpacked.done
    assert unpacked.result() == text


@settings(max_examples=200)
@given(texts)
def test_raw_snappy(text: bytes) -> None:
    section = bytes(compress(Codec.SNAPPY, text))[20:]
    if 0 < len(text) <= 32 * 1024:
        assert Unpacked(Codec.SNAPPY, section).result() == text


def test_distances_of_every_length() -> None:
    """Copies that overlap what they write, which no encoder can be made to choose at will."""
    for distance in range(1, 80):
        for length in range(1, 65):
            seed = bytes(range(1, distance + 1))
            size = distance + length
            literal = bytes([60 << 2, distance - 1]) + seed if distance > 60 else bytes([(distance - 1) << 2]) + seed
            block = bytes([size & 0x7F | 0x80, size >> 7]) + literal + bytes([(length - 1) << 2 | 2, distance, 0])
            expected = (seed * (length // distance + 2))[:size]
            assert bytes(decompress(Codec.SNAPPY, block)) == expected
            assert Unpacked(Codec.SNAPPY, block, room=size + t.SLACK).result() == expected


@settings(max_examples=500)
@given(texts.filter(bool), st.sampled_from([Codec.SNAPPY, Codec.LZ4]), st.booleans(), st.data())
def test_damaged_bytes_are_refused_or_read_as_the_codec_does(
    text: bytes, codec: Codec, raw: bool, data: st.DataObject
) -> None:
    section = bytearray(compress(codec, text))
    if raw and codec == Codec.SNAPPY:
        del section[:20]
    for _ in range(data.draw(st.integers(1, 3))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    del section[data.draw(st.integers(1, len(section))) :]
    unpacked = Unpacked(codec, bytes(section))
    if unpacked.done:
        assert unpacked.result() == bytes(decompress(codec, bytes(section)))
    else:
        assert (unpacked.room[ROOM:] == GUARD).all()
        if raw or codec == Codec.LZ4:
            return
        # Whatever Python can read and there is room for, the kernel can read: it must not be left to the slow way.
        try:
            whole = decompress(codec, bytes(section), ROOM - t.SLACK)
        except RecordsError:
            return
        assert not whole


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_room_is_kept_to(codec: Codec) -> None:
    text = bytes(range(250)) * 20
    section = bytes(compress(codec, text))
    assert Unpacked(codec, section, room=len(text) + t.SLACK).result() == text
    assert not Unpacked(codec, section, room=len(text) + t.SLACK - 1).done
    assert not Unpacked(codec, section, room=0).done
    assert Unpacked(codec, section, MOST_UNPACKED=len(text)).done
    assert not Unpacked(codec, section, MOST_UNPACKED=len(text) - 1).done
    assert not Unpacked(codec, section, MOST_UNPACKED=len(text) + 10, UNPACKED=11).done
    assert not Unpacked(codec, section, TAKEN_ROWS=1, MOST_BYTES=len(text) - 1).done


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, 5])
def test_other_codecs_are_left_alone(codec: int) -> None:
    assert not Unpacked(codec, b"anything").done


def test_without_lz4_s_function_its_batches_are_left_alone() -> None:
    assert not Unpacked(Codec.LZ4, bytes(compress(Codec.LZ4, b"text")), LZ4_FUNCTION=0).done


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("missing", [(), ("lz4_address",), ("crc32c_address", "lz4_address")])
def test_every_way_reads_the_same(codec: Codec, missing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in missing:
        monkeypatch.setattr(f"kafkalog.records.arrow.decode.{name}", lambda: 0)
    values = [b"%d " % i * (i % 40) for i in range(400)]
    batches = [
        encode_batch([Record(i, 0, None, values[i]) for i in range(at, at + 20)], base_offset=at, codec=codec)
        for at in range(0, 400, 20)
    ]
    buf = b"".join(batches)
    assert _values(buf) == (values, 400)
    # The checksum of every batch is looked at, the first one's and those that follow.
    at = 0
    for batch in batches:
        damaged = bytearray(buf)
        damaged[at + CRC_AT] ^= 1
        with pytest.raises(RecordsError, match="CRC"):
            _values(bytes(damaged))
        at += len(batch)


def test_the_checksum_s_function_is_the_wheel_s() -> None:
    if not native.crc32c_address():
        pytest.skip("this build of the crc32c wheel exports no function for this processor")
    batch = encode_batch([Record(0, 0, None, b"v" * 500)])
    assert crc32c(batch[HEADER_SIZE - 40 :]) == int.from_bytes(batch[CRC_AT : CRC_AT + 4], "big")
    assert _values(bytes(batch))[0] == [b"v" * 500]


@pytest.mark.parametrize("name", ["crc32c_address", "lz4_address", "lz4_compress_address"])
def test_the_wheels_export_the_functions_that_kernels_call(name: str) -> None:
    """A release of a wheel that drops one costs speed without a word: this says so."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the names are known of the wheels for x86-64")
    assert getattr(native, name)() != 0


@pytest.mark.parametrize(
    ("name", "address"),
    [("LZ4_decompress_safe", native.lz4_address), ("LZ4_compress_default", native.lz4_compress_address)],
)
def test_a_function_of_lz4_that_does_something_else_is_not_called(
    name: str, address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another function under the name, as of a build that was changed."""
    other = native._lz4("LZ4_compress_default" if name == "LZ4_decompress_safe" else "LZ4_decompress_safe")
    monkeypatch.setattr(native, "_lz4", lambda name: other)
    assert address.__wrapped__() == 0


@pytest.mark.parametrize("name", ["adler32", "crc32"])
def test_a_checksum_that_is_another_is_not_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another checksum of the same signature under the name: one of zlib's, as of a build that was changed."""
    library = ctypes.util.find_library("z")
    if library is None:
        pytest.skip("there is no zlib")
    other = getattr(ctypes.CDLL(library), name)
    if native.crc32c_address():
        assert native.crc32c_address.__wrapped__() != 0, "the wheel's own function passes"
    monkeypatch.setattr(native, "_crc32c", lambda: other)
    assert native.crc32c_address.__wrapped__() == 0

"""Test the codecs with independent libraries, damaged data, and bombs."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import lz4.block
import lz4.frame
import pytest
import snappy  # type: ignore[import-untyped]
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.records.batch import CRC_AT, Record, encode_batch, pack_header, read_header
from kafkalog.records.compression import (
    DEFAULT_MAX_SIZE,
    SNAPPY_FREE_BLOCKS,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    Buffer,
    Codec,
    compress,
    decompress,
    decompress_into,
    most_expanded,
    refuse_dependent_blocks,
)
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from kafkalog.records.validate import check_batch
from tests.kafkalog.records.support import CODECS

REAL = CODECS[1:]


def _to_own_memory(codec: Codec, data: bytes, max_size: int = DEFAULT_MAX_SIZE) -> Buffer:
    """As a decode does it; what lies behind the room must stay as it is."""
    behind = b"\xa5" * 64
    memory = bytearray(behind)
    rooms: list[int] = []

    def reserve(size: int) -> memoryview:
        assert size <= max_size
        rooms.append(size)
        memory[:0] = b"\x5a" * size
        return memoryview(memory)[:size]

    size = decompress_into(codec, data, reserve, max_size)
    assert len(rooms) == 1
    assert memory[rooms[0] :] == behind
    return memory[:size]


each_way = pytest.mark.parametrize("unpack", [decompress, _to_own_memory])
Unpack = Callable[..., Buffer]

contents = st.binary(max_size=2000) | st.builds(
    lambda part, times, tail: part * times + tail,
    st.binary(min_size=1, max_size=30),
    st.integers(0, 6000),
    st.binary(max_size=10),
)


def _xerial_blocks(data: bytes) -> list[bytes]:
    assert data.startswith(XERIAL_HEADER)
    blocks, at = [], len(XERIAL_HEADER)
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        blocks.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    assert at == len(data)
    return blocks


def _foreign_decompress(codec: Codec, data: bytes) -> bytes:
    if codec == Codec.GZIP:
        return gzip.decompress(data)
    if codec == Codec.SNAPPY:
        return b"".join(snappy.uncompress(block) for block in _xerial_blocks(data))
    if codec == Codec.LZ4:
        return bytes(lz4.frame.LZ4FrameFile(io.BytesIO(data)).read())
    return zstandard.ZstdDecompressor().stream_reader(data).read()


def _foreign_compress(codec: Codec, data: bytes) -> bytes:
    """As other clients write: a streamed zstd states no size, snappy comes raw."""
    if codec == Codec.GZIP:
        return gzip.compress(data)
    if codec == Codec.SNAPPY:
        return bytes(snappy.compress(data))
    if codec == Codec.LZ4:
        return bytes(lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB, content_checksum=True))
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize("codec", REAL)
@given(data=contents)
def test_others_read_what_we_write(codec: Codec, data: bytes) -> None:
    assert _foreign_decompress(codec, bytes(compress(codec, data))) == data


@each_way
@pytest.mark.parametrize("codec", REAL)
@given(data=contents)
def test_we_read_what_others_write(unpack: Unpack, codec: Codec, data: bytes) -> None:
    assert bytes(unpack(codec, _foreign_compress(codec, data))) == data


@each_way
@pytest.mark.parametrize("codec", CODECS)
@given(data=contents)
def test_round_trip_up_to_the_bound_exactly(unpack: Unpack, codec: Codec, data: bytes) -> None:
    compressed = bytes(compress(codec, data))
    assert bytes(unpack(codec, compressed, len(data))) == data
    if data:
        with pytest.raises(RecordTooLargeError):
            unpack(codec, compressed, len(data) - 1)


@each_way
def test_snappy_blocks_of_another_writer(unpack: Unpack) -> None:
    blocks = [b"a" * 100, b"b" * 70000, b""]
    framed = XERIAL_HEADER + b"".join(
        len(block).to_bytes(4, "big") + block for block in map(bytes, map(snappy.compress, blocks))
    )
    assert bytes(unpack(Codec.SNAPPY, framed)) == b"".join(blocks)


@each_way
def test_several_members_and_frames(unpack: Unpack) -> None:
    assert bytes(unpack(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"))) == b"onetwo"
    frames = zstandard.compress(b"one") + b"\x50\x2a\x4d\x18\x02\x00\x00\x00xx" + zstandard.compress(b"two")
    assert bytes(unpack(Codec.ZSTD, frames)) == b"onetwo"


@each_way
@pytest.mark.parametrize("codec", REAL)
def test_every_truncation_is_an_error(unpack: Unpack, codec: Codec) -> None:
    data = os.urandom(50) + b"x" * 500 + os.urandom(50)
    compressed = bytes(compress(codec, data))
    for end in range(len(compressed)):
        if codec == Codec.SNAPPY and end == len(XERIAL_HEADER):
            continue  # a stream of no blocks
        with pytest.raises(CorruptRecordError):
            unpack(codec, compressed[:end])


@each_way
@pytest.mark.parametrize("codec", REAL)
@settings(max_examples=200)
@given(data=st.data())
def test_damaged_data_is_an_error_or_other_data(unpack: Unpack, codec: Codec, data: st.DataObject) -> None:
    compressed = bytearray(compress(codec, b"some data " * 40))
    for _ in range(data.draw(st.integers(1, 3))):
        compressed[data.draw(st.integers(0, len(compressed) - 1))] = data.draw(st.integers(0, 255))
    try:
        out = unpack(codec, bytes(compressed), 1000)
    except RecordsError:
        return
    assert len(out) <= 1000


@each_way
@pytest.mark.parametrize("codec", REAL)
@given(data=st.binary(max_size=100))
def test_random_data_is_an_error_or_small(unpack: Unpack, codec: Codec, data: bytes) -> None:
    try:
        out = unpack(codec, data, 1000)
    except RecordsError:
        return
    assert len(out) <= 1000


def test_unknown_codecs() -> None:
    for codec in (5, 6, 7, -1):
        with pytest.raises(UnsupportedCompressionTypeError):
            compress(codec, b"")
        with pytest.raises(UnsupportedCompressionTypeError):
            decompress(codec, b"")


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        # Sizes that are stated and lie: 4 GiB of snappy, a zstd frame of 2**62 bytes, an lz4 frame likewise.
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00" * 20),
        (Codec.SNAPPY, XERIAL_HEADER + b"\x7f\xff\xff\xff" + b"\x00" * 20),
        (Codec.SNAPPY, XERIAL_MAGIC + b"\x00\x00\x00\x02\x00\x00\x00\x02"),
        (Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"),
        (Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00"),
        (Codec.LZ4, b"\x04\x22\x4d\x18\x68\x40" + (2**62).to_bytes(8, "little") + b"\x00" * 5),
        (Codec.LZ4, b"\x04\x22\x4d\x18\x60\x40\x82" + b"\xff\xff\xff\x7f" + b"\x00" * 20),
    ],
)
@each_way
def test_sizes_that_lie(unpack: Unpack, codec: Codec, data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        unpack(codec, data)


def _bomb(codec: Codec, megabytes: int) -> bytes:
    """Return this many MiB of zeros."""
    block = bytes(1 << 20)
    if codec == Codec.GZIP:
        deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join([*(deflater.compress(block) for _ in range(megabytes)), deflater.flush()])
    if codec == Codec.SNAPPY:
        packed = bytes(snappy.compress(block))
        return XERIAL_HEADER + (len(packed).to_bytes(4, "big") + packed) * megabytes
    if codec == Codec.LZ4:
        context = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX1MB)
        return b"".join([context.begin(), *(context.compress(block) for _ in range(megabytes)), context.flush()])
    compressor = zstandard.ZstdCompressor().compressobj()
    return b"".join([*(compressor.compress(block) for _ in range(megabytes)), compressor.flush()])


_DEFUSE = """
import resource, sys
from kafkalog.records.compression import decompress
from kafkalog.records.errors import RecordTooLargeError
data = open(sys.argv[2], "rb").read()
decompress(int(sys.argv[1]), data[:0] + bytes.fromhex(sys.argv[3]), 1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(int(sys.argv[1]), data, 8 << 20)
except RecordTooLargeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("codec", REAL)
def test_a_bomb_takes_no_more_memory_than_allowed(codec: Codec, tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "bomb")
    with open(path, "wb") as file:
        file.write(_bomb(codec, 512))
    small = bytes(compress(codec, b"warm")).hex()
    done = subprocess.run(
        [sys.executable, "-c", _DEFUSE, str(int(codec)), path, small], capture_output=True, text=True, check=True
    )
    # ru_maxrss counts KiB on Linux, bytes on macOS.
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 40 << 20


@pytest.mark.parametrize("codec", REAL)
def test_a_leader_refuses_a_bomb(codec: Codec) -> None:
    header = read_header(encode_batch([Record(0, 0, None, b"v")], codec=codec))
    batch = pack_header(header, _bomb(codec, 16))
    assert len(batch) > CRC_AT
    with pytest.raises(RecordTooLargeError):
        check_batch(batch, max_decompressed=4 << 20)


EMPTY_BLOCKS = {
    Codec.SNAPPY: (XERIAL_HEADER, b"\0\0\0\1\0", b""),
    Codec.LZ4: (b"\x04\x22\x4d\x18\x60\x40\x82", b"\0\0\0\x80", b"\0\0\0\0"),
    Codec.ZSTD: (b"\x28\xb5\x2f\xfd\x00\x50", b"\0\0\0", b"\1\0\0"),
}
"""For each codec the start of a frame, a block of which nothing comes out, and the end of a frame."""


def empty_blocks(codec: Codec, size: int) -> bytes:
    """Return about `size` bytes of blocks of which nothing comes out."""
    start, block, end = EMPTY_BLOCKS[codec]
    return start + block * (size // len(block)) + end


@pytest.mark.parametrize("codec", list(EMPTY_BLOCKS))
def test_a_look_at_headers_ends_after_so_many(codec: Codec) -> None:
    data = empty_blocks(codec, 1 << 20)
    assert most_expanded(codec, data, 1 << 20, 500) == (0, 501)
    whole = most_expanded(codec, data, 1 << 20, 1 << 20)
    assert whole.size == 0
    assert whole.blocks > 200_000
    assert bytes(decompress(codec, data)) == b""


@pytest.mark.parametrize("codec", list(EMPTY_BLOCKS))
def test_a_look_at_headers_tells_what_may_come_out(codec: Codec) -> None:
    data = bytes(compress(codec, os.urandom(300_000)))
    assert 300_000 <= most_expanded(codec, data, 1 << 20, 4096).size < 500_000
    assert most_expanded(codec, data, 100_000, 4096).size > 100_000
    assert most_expanded(codec, data[:-1], 1 << 20, 4096).size == 0


@pytest.mark.parametrize("block", [b"\0\0\0\1\0", b"\0\0\0\3\1\0v"], ids=["empty", "of one byte"])
def test_more_snappy_blocks_than_any_producer_writes_are_refused(block: bytes) -> None:
    """Each takes a microsecond, and a request of 100 MB may have 20 million of them."""
    data = XERIAL_HEADER + block * (SNAPPY_FREE_BLOCKS + 1000)
    with pytest.raises(CorruptRecordError, match=r"too many tiny snappy blocks: \d+ hold \d+ bytes in all"):
        decompress(Codec.SNAPPY, data)
    large = os.urandom(1 << 20)
    whole = bytes(compress(Codec.SNAPPY, large)) + block * (SNAPPY_FREE_BLOCKS + 500)
    assert decompress(Codec.SNAPPY, whole)[: 1 << 20] == large


def test_snappy_blocks_are_not_kept() -> None:
    """A view of a block takes far more memory than the block."""
    data = empty_blocks(Codec.SNAPPY, 1 << 20)
    tracemalloc.start()
    try:
        assert bytes(decompress(Codec.SNAPPY, data)) == b""
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_lz4_frames_of_dependent_blocks_are_read_and_told() -> None:
    data = os.urandom(1000) * 300
    dependent, independent = (lz4.frame.compress(data, block_linked=linked) for linked in (True, False))
    assert bytes(decompress(Codec.LZ4, dependent)) == bytes(decompress(Codec.LZ4, independent)) == data
    refuse_dependent_blocks(Codec.LZ4, independent)
    refuse_dependent_blocks(Codec.ZSTD, dependent)
    with pytest.raises(InvalidRecordError):
        refuse_dependent_blocks(Codec.LZ4, dependent)

"""The four codecs of record batches, with an upper bound on what they may expand to.

| code | name   | written here                              | read here                              |
|------|--------|-------------------------------------------|----------------------------------------|
| 0    | none   | the bytes themselves                      | the bytes themselves                   |
| 1    | gzip   | one RFC 1952 member                       | members one after another              |
| 2    | snappy | xerial framing, blocks of 32 KiB          | xerial framing, or one raw block       |
| 3    | lz4    | one frame, independent blocks of 64 KiB   | one frame (v1.6.x of the frame format) |
| 4    | zstd   | one RFC 8878 frame                        | frames one after another               |

Xerial framing is that of snappy-java's streams: `82 53 4e 41 50 50 59 00` ("\\x82SNAPPY\\0"), version int32 = 1,
compatible version int32 = 1, then blocks, each an int32 length and that many bytes of raw snappy; all big- endian. It
is not the framing format of the snappy project itself, which no Kafka client speaks.

Kafka's Java reader of lz4 refuses frames of dependent blocks, so none are written, and leaders take none from producers
(`refuse_dependent_blocks`). They are read here.

Bounds. Decompression never takes more memory for its result than `max_size` plus a small constant. Where a format
states a result size, the size is checked against `max_size` and against the most that so many compressed bytes can
expand to. Where no size is stated (zstd and lz4 streams), the block headers give a bound.

The choice of libraries was measured (`benchmarks/records.py`, 16 KiB and 1 MiB batches): zlib is faster than cramjam
for gzip in both directions; lz4's own binding is 1.2 to 15 times as fast as cramjam for frames; cramjam is the only one
of the dependencies that supports snappy and zstd.

`decompress` returns new memory. `decompress_into` writes to memory that the caller uses again, which spares a decode
the allocations and keeps the caches warm: snappy in 16 KiB batches takes 0.55 of the time.

A decode to Arrow calls this module only for what the kernel `kernels/compiled/unpacking.py` leaves to it: gzip and
zstd, lz4 frames with checksums or sizes, and whatever is damaged or larger than expected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from enum import IntEnum
from functools import partial
from mmap import mmap
from struct import Struct
from typing import NamedTuple

import cramjam
import lz4.frame

from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)

Buffer = bytes | bytearray | memoryview

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_SIZE = 32 * 1024
"""Input bytes a block, as snappy-java's default."""

SNAPPY_MAX_RATIO = 64
"""A snappy element of n bytes yields at most 64 * n (a two-byte-offset copy: 3 bytes for 64)."""

SNAPPY_FREE_BLOCKS = 1 << 18
"""The number of blocks that may be of any size. To read them takes some 0.3 s. Further blocks must hold 1 KiB on
average, which is the smallest block size of snappy-java. So data of millions of empty blocks are refused.
"""

LZ4_MAX_RATIO = 255
"""A length byte of an lz4 sequence stands for at most 255 bytes of output."""

LZ4_MAGIC = (0x184D2204).to_bytes(4, "little")
_LZ4_LENGTH = 0x7FFFFFFF
"""The bits of a block's header that hold its length; the bit above says that the block is stored uncompressed."""
_LZ4_INDEPENDENT = 0x20
"""The flag of a frame whose blocks do not refer to each other."""
ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
ZSTD_BLOCK_MAX = 128 * 1024
"""The most bytes that any zstd block regenerates, whatever its window."""
ZSTD_WINDOW_MAX = 128 * 1024 * 1024
"""The largest window that any level of the reference encoder uses (2**27); a decoder allocates memory for it."""

_UINT32_LITTLE = Struct("<I")
_UINT32_BIG = Struct(">I")

GZIP_MAX_MEMBERS = 64
"""The most members that are read: producers write one, and each further one costs a copy of what follows it."""

GZIP_LIKELY_RATIO = 128
"""Real data seldom shrink so far; the most is 1,032."""
MAPPED_FROM = 8 * 1024 * 1024
"""Results of this many bytes get a memory mapping of their own."""

DEFAULT_MAX_SIZE = 128 * 1024 * 1024
"""The most bytes that one batch may expand to, unless the caller says otherwise."""


class Codec(IntEnum):
    """Compression type, as in bits 0..2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_SIMPLE_RATIOS: dict[int, int] = {Codec.GZIP: GZIP_LIKELY_RATIO, Codec.LZ4: LZ4_MAX_RATIO}
"""The codecs whose expanded size is estimated from the compressed one alone. Not snappy: its empty blocks cost time."""


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data`. `level` is the codec's own (gzip 1..9, lz4 1..17, zstd -7..22), None its default."""
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise UnsupportedCompressionTypeError(f"unknown compression type {int(codec)}")
    return compressor(data, level)


def decompress(codec: int, data: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> Buffer:
    """Decompress `data` into at most `max_size` bytes.

    Raises:
        RecordTooLargeError: The result would be larger.
        CorruptRecordError: `data` is damaged, truncated or followed by other bytes.
        UnsupportedCompressionTypeError: The codec is unknown.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCompressionTypeError(f"unknown compression type {int(codec)}")
    return decompressor(data, max_size)


class Estimate(NamedTuple):
    """Estimate of what compressed data expand to, by the headers that were looked at."""

    size: int
    """About how many bytes may come out."""
    blocks: int
    """Number of headers of blocks that were looked at."""


def most_expanded(codec: int, data: Buffer, room: int, most_blocks: int) -> Estimate:
    """Estimate how many bytes may come out of `data` by what its headers state.

    The walk ends after the first block with which the size exceeds `room` or the blocks exceed `most_blocks`: `data`
    may consist of headers alone, millions of them. The estimate then exceeds the bound, too.

    There is no walk where the ratio of the codec tells that `room` is enough, and it ends where `data` are damaged,
    which are refused at once. gzip states no size that could be trusted: the estimate is `GZIP_LIKELY_RATIO` times the
    compressed size.
    """
    view = memoryview(data)
    ratio = _SIMPLE_RATIOS.get(codec)
    if ratio is not None and (len(view) * ratio <= room or codec == Codec.GZIP):
        return Estimate(len(view) * ratio, 0)
    bounds = _BOUNDS.get(codec)
    if bounds is None:
        return Estimate(len(view), 0)
    size = blocks = 0
    try:
        for bound in bounds(view):
            size += bound
            blocks += 1
            if size > room or blocks > most_blocks:
                break
    except CorruptRecordError:
        return Estimate(0, blocks)
    return Estimate(size, blocks)


def refuse_dependent_blocks(codec: int, data: Buffer) -> None:
    """Check that `data` are no lz4 frame of dependent blocks, as a leader does: Java consumers would stop there.

    Raises:
        InvalidRecordError: They are.
    """
    if codec == Codec.LZ4 and len(data) > 4 and not data[4] & _LZ4_INDEPENDENT:
        raise InvalidRecordError("lz4 frame of dependent blocks, which Kafka does not support")


Reserve = Callable[[int], memoryview]
"""Returns a buffer of so many bytes to decompress to."""


def decompress_into(codec: int, data: Buffer, reserve: Reserve, max_size: int = DEFAULT_MAX_SIZE) -> int:
    """Decompress `data` to the beginning of the memory that `reserve` gives; return how many bytes came out.

    `reserve` is called once, with the size that the headers allow, and at most `max_size`.

    Raises:
        RecordTooLargeError, CorruptRecordError, UnsupportedCompressionTypeError: `decompress` raises them.
    """
    if codec == Codec.SNAPPY:
        return _decompress_snappy_into(data, reserve, max_size)
    if codec == Codec.ZSTD:
        return _decompress_zstd_into(data, reserve, max_size)
    # zlib and lz4's frames allocate their result; compared with their work the copy is cheap.
    whole = decompress(codec, data, max_size)
    reserve(len(whole))[:] = whole
    return len(whole)


def _too_large(name: str, max_size: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"{name} data expands to more than {max_size} bytes")


def _to_new_memory(into: Callable[[Buffer, Reserve, int], int], data: Buffer, max_size: int) -> Buffer:
    rooms: list[bytearray | mmap] = []

    def reserve(size: int) -> memoryview:
        # The kernel fills a mapping with zeros page by page, as it is written to. A bytearray of 128 MiB would be
        # filled at once, in a call during which no other thread runs.
        rooms.append(mmap(-1, size) if size >= MAPPED_FROM else bytearray(size))
        return memoryview(rooms[0])

    size = into(data, reserve, max_size)
    room = rooms[0]
    return room if isinstance(room, bytearray) and size == len(room) else memoryview(room)[:size]


# none


def _compress_none(data: Buffer, level: int | None) -> Buffer:
    return data


def _decompress_none(data: Buffer, max_size: int) -> Buffer:
    if len(data) > max_size:
        raise RecordTooLargeError(f"{len(data)} bytes where {max_size} are allowed")
    return data


# gzip


def _compress_gzip(data: Buffer, level: int | None) -> Buffer:
    # wbits 31: the gzip wrapper around a 32 KiB window.
    return zlib.compress(data, -1 if level is None else level, 31)


def _decompress_gzip(data: Buffer, max_size: int) -> Buffer:
    members: list[bytes] = []
    left = max_size
    rest: Buffer = data
    for _ in range(GZIP_MAX_MEMBERS):
        member = zlib.decompressobj(31)
        try:
            # Allow one byte more than the bound, so that "full" and "too large" differ. (0 would mean no bound.)
            out = member.decompress(rest, left + 1)
        except zlib.error as error:
            raise CorruptRecordError(f"bad gzip data: {error}") from None
        if len(out) > left:
            raise _too_large("gzip", max_size)
        if not member.eof:
            raise CorruptRecordError("truncated gzip data")
        members.append(out)
        left -= len(out)
        rest = member.unused_data
        if not rest:
            return members[0] if len(members) == 1 else b"".join(members)
    raise CorruptRecordError(f"more than {GZIP_MAX_MEMBERS} gzip members")


# snappy


def _compress_snappy(data: Buffer, level: int | None) -> Buffer:
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE])
        out += len(block).to_bytes(4, "big")
        out += memoryview(block)
    return out


def _snappy_size(block: memoryview) -> int:
    """Return the size that a raw block states; refuse a size to which its bytes cannot expand."""
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError:
        raise CorruptRecordError("snappy data without a size") from None
    if size > SNAPPY_MAX_RATIO * len(block):
        raise CorruptRecordError("snappy data states a size that it cannot expand to")
    return size


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks of `view`."""
    if view[:8] != XERIAL_MAGIC:
        yield view
        return
    size = len(view)
    if size < len(XERIAL_HEADER):
        raise CorruptRecordError("truncated snappy header")
    if _UINT32_BIG.unpack_from(view, 12)[0] > 1:
        raise CorruptRecordError("snappy framing of an unknown version")
    position = len(XERIAL_HEADER)
    while position < size:
        begin = position + 4
        position = begin + _UINT32_BIG.unpack_from(view, position)[0] if begin <= size else begin
        if position > size:
            raise CorruptRecordError("truncated snappy block")
        yield view[begin:position]


def _snappy_bounds(view: memoryview) -> Iterator[int]:
    """Yield for each block the bytes that come out of it."""
    return map(_snappy_size, _snappy_blocks(view))


def _decompress_snappy_block(block: memoryview, room: memoryview) -> int:
    """Decompress a block to `room`, which has the size that the block states."""
    try:
        written = int(cramjam.snappy.decompress_raw_into(block, room))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"bad snappy data: {error}") from None
    if written != len(room):
        raise CorruptRecordError(f"snappy block of {written} bytes states {len(room)}")
    return written


def _decompress_snappy_into(data: Buffer, reserve: Reserve, max_size: int) -> int:
    # The blocks are walked twice and not kept: there may be one for each few bytes of `data`.
    view = memoryview(data)
    total = 0
    for count, size in enumerate(_snappy_bounds(view), 1):
        total += size
        if total > max_size:
            raise _too_large("snappy", max_size)
        if count > SNAPPY_FREE_BLOCKS + (total >> 10):
            raise CorruptRecordError(f"too many tiny snappy blocks: {count} hold {total} bytes in all")
    room = reserve(total)
    at = 0
    for block in _snappy_blocks(view):
        at += _decompress_snappy_block(block, room[at : at + _snappy_size(block)])
    return at


# lz4


def _compress_lz4(data: Buffer, level: int | None) -> Buffer:
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _lz4_bounds(view: memoryview) -> Iterator[int]:
    """Yield for each block of the frame in `view` the most bytes that it can expand to, by its header.

    The frame must end where `view` ends.
    """
    size = len(view)
    if size < 7 or view[:4] != LZ4_MAGIC:
        raise CorruptRecordError("not an lz4 frame")
    flags, descriptor = view[4], view[5]
    block_id = descriptor >> 4 & 7
    if flags >> 6 != 1 or block_id < 4:
        raise CorruptRecordError("lz4 frame of an unknown version or block size")
    if flags & 1:
        raise CorruptRecordError("lz4 frame with a dictionary")
    block_max = 1 << (8 + 2 * block_id)
    checksum = 4 if flags & 0x10 else 0
    position = 7 + (8 if flags & 8 else 0)
    while position + 4 <= size:
        (header,) = _UINT32_LITTLE.unpack_from(view, position)
        if header == 0:
            if position + (8 if flags & 4 else 4) != size:
                break
            return
        length = header & _LZ4_LENGTH
        yield min(block_max, length if header >> 31 else length * LZ4_MAX_RATIO)
        position += 4 + length + checksum
    raise CorruptRecordError("truncated lz4 frame, or bytes after it")


def _decompress_lz4(data: Buffer, max_size: int) -> Buffer:
    bound = sum(_lz4_bounds(memoryview(data)))
    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        # The binding allocates all of max_length at once, hence the bound from the block headers.
        out: bytes = frame.decompress(data, max_length=min(bound, max_size) + 1)
    except (RuntimeError, EOFError) as error:
        raise CorruptRecordError(f"bad lz4 data: {error}") from None
    if len(out) > max_size:
        raise _too_large("lz4", max_size)
    if not frame.eof:
        raise CorruptRecordError("truncated lz4 data")
    return out


# zstd


def _compress_zstd(data: Buffer, level: int | None) -> Buffer:
    return memoryview(cramjam.zstd.compress(data, 3 if level is None else level))


def _zstd_frame(view: memoryview, position: int) -> Generator[int, None, int]:
    """Yield for each header the most bytes that the frame at `position` regenerates (RFC 8878, section 3.1.1).

    That is 0 for the headers of blocks, and what the whole frame regenerates at its end. Return that end.
    """
    end = len(view)
    if end - position < 6:
        raise CorruptRecordError("truncated zstd frame")
    magic = int.from_bytes(view[position : position + 4], "little")
    if magic & 0xFFFFFFF0 == ZSTD_SKIPPABLE_MAGIC:
        after = position + 8 + int.from_bytes(view[position + 4 : position + 8], "little")
        if after > end:
            raise CorruptRecordError("truncated zstd frame")
        yield 0
        return after
    if magic != ZSTD_MAGIC:
        raise CorruptRecordError("not a zstd frame")
    descriptor = view[position + 4]
    single_segment = descriptor >> 5 & 1
    size_bytes = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    block_max = ZSTD_BLOCK_MAX
    if not single_segment:
        exponent, mantissa = view[position + 5] >> 3, view[position + 5] & 7
        window = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        if window > ZSTD_WINDOW_MAX:
            raise CorruptRecordError(f"zstd window of {window} bytes")
        block_max = min(block_max, window)
    position += 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    stated = int.from_bytes(view[position : position + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    position += size_bytes
    bound = 0
    last = False
    while not last:
        if end - position < 3:
            raise CorruptRecordError("truncated zstd frame")
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        # Raw and repeated blocks state their size; a compressed one has at most a block's maximum.
        bound += block_max if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
        yield 0
    position += 4 if descriptor & 4 else 0
    if position > end:
        raise CorruptRecordError("truncated zstd frame")
    if size_bytes:
        # A decoder may allocate the stated size, so it is refused where the blocks cannot fill it.
        if stated > bound:
            raise CorruptRecordError("zstd frame states a size that it cannot expand to")
        bound = stated
    yield bound
    return position


def _zstd_bounds(view: memoryview) -> Iterator[int]:
    """Yield for each header the most bytes that the frames in `view` regenerate."""
    position = 0
    while position < len(view) or not position:
        position = yield from _zstd_frame(view, position)


def _decompress_zstd_into(data: Buffer, reserve: Reserve, max_size: int) -> int:
    bound = sum(_zstd_bounds(memoryview(data)))
    try:
        return int(cramjam.zstd.decompress_into(data, reserve(min(bound, max_size))))
    except cramjam.DecompressionError as error:
        if bound > max_size:
            raise _too_large("zstd", max_size) from None
        raise CorruptRecordError(f"bad zstd data: {error}") from None


def _decompress_zstd(data: Buffer, max_size: int) -> Buffer:
    return _to_new_memory(_decompress_zstd_into, data, max_size)


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], Buffer]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: partial(_to_new_memory, _decompress_snappy_into),
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
_BOUNDS: dict[int, Callable[[memoryview], Iterator[int]]] = {
    Codec.SNAPPY: _snappy_bounds,
    Codec.LZ4: _lz4_bounds,
    Codec.ZSTD: _zstd_bounds,
}
"""For each block, and where a frame states it for each frame, the most bytes that come out; damage is an error."""

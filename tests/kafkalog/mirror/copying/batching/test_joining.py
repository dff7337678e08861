"""Test that small batches become one, and that nothing of their records or their places in the source is lost."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.producer.batches.encoded_batch import check_encoded
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.batching.joining import EXPANDED_BYTES, JOINED_BYTES, SMALL_BYTES, first_joined, joined
from kafkalog.records.batch import HEADER, BatchHeader, Record, decode_batch, encode_batch, pack_header, read_header
from kafkalog.records.compression import Codec

HEADERS = (("h", b"1"), ("h", None))
Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def batch(first: int, count: int, size: int = 3, codec: int = Codec.NONE) -> tuple[MirroredBatch, int]:
    records = [Record(n, 1000 + first + n, b"k", b"%d" % (first + n) * size, HEADERS) for n in range(count)]
    return MirroredBatch(encode_batch(records, codec=codec), ((first, count),), False), first + count


def placed(found: list[tuple[MirroredBatch | None, int]]) -> dict[int, Content]:
    """Return the records by their offsets in the source."""
    there: dict[int, Content] = {}
    for each, position in found:
        if each is not None:
            check_encoded(each.data)
            _, records = decode_batch(each.data)
            offsets = [offset for start, count in each.offsets for offset in range(start, start + count)]
            assert [record.offset for record in records] == list(range(len(offsets)))
            there |= {at: record[1:] for at, record in zip(offsets, records, strict=True)}
            assert offsets[-1] < position
    return there


def test_single_records_become_one_batch() -> None:
    found = list(joined([batch(5, 1), batch(6, 1), (None, 9), batch(9, 2), (None, 12)], JOINED_BYTES))
    ((one, position),) = found
    assert one is not None
    assert (one.offsets, one.decoded, position) == (((5, 2), (9, 2)), True, 12)


def test_large_and_lone_batches_pass_as_they_are() -> None:
    large, lone = batch(0, 1, SMALL_BYTES), batch(1, 1)
    assert list(joined([(None, 0), large, lone], JOINED_BYTES)) == [(None, 0), large, lone]


def test_what_would_become_too_large_is_not_joined() -> None:
    """Times that are far apart take more bytes in one batch."""
    parts = []
    for at in range(5):
        records = [Record(n, at * 86_400_000, None, b"", ()) for n in range(400)]
        parts.append((MirroredBatch(encode_batch(records), ((at * 400, 400),), False), at * 400 + 400))
    most = sum(len(each.data) for each, _ in parts)
    assert list(joined(parts, most)) == parts


def test_codecs_are_kept() -> None:
    parts = [batch(at, 1, codec=Codec.LZ4 if at < 2 else Codec.GZIP) for at in range(4)]
    found = [each for each, _ in joined(parts, JOINED_BYTES) if each is not None]
    assert [(read_header(each.data).codec, each.offsets) for each in found] == [
        (Codec.LZ4, ((0, 2),)),
        (Codec.GZIP, ((2, 2),)),
    ]


def expanding(first: int, codec: int, size: int) -> tuple[MirroredBatch, int]:
    """Return a batch of one record that takes `size` bytes, and few of them compressed."""
    data = encode_batch([Record(0, 1000 + first, b"k", bytes(size))], codec=codec)
    assert len(data) < SMALL_BYTES
    return MirroredBatch(data, ((first, 1),), False), first + 1


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP, Codec.LZ4])
def test_what_expands_to_much_is_not_decoded(codec: int) -> None:
    large = [expanding(2 + at, codec, 900_000 if codec == Codec.LZ4 else 2_000_000) for at in range(2)]
    small = [batch(at, 1, codec=codec) for at in (0, 1, 4, 5)]
    tracemalloc.start()
    try:
        found = list(joined([*small[:2], *large, *small[2:], (None, 9)], JOINED_BYTES))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    passed = [each for each, _ in found if each is not None]
    # Two that fit into the bound alone stay alone, too.
    assert (
        [each.offsets for each in passed] == [((0, 2),), ((2, 1),), ((3, 1),), ((4, 2),)]
        if codec != Codec.LZ4
        else [((0, 3),), ((3, 3),)]
    )
    assert [position for _, position in found][-1] == 9
    assert peak < 8 * EXPANDED_BYTES


def test_many_that_expand_take_no_more_together() -> None:
    """One request may carry a thousand of them; together they would be 200 MB."""
    parts = [expanding(at, Codec.ZSTD, 200_000) for at in range(1000)]
    tracemalloc.start()
    try:
        sizes = [sum(count for _, count in each.offsets) for each, _ in joined(parts, JOINED_BYTES) if each is not None]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 1000
    # The last of those that were fetched together have room left.
    assert max(sizes) == EXPANDED_BYTES // 200_000
    assert peak < 8 * EXPANDED_BYTES


def first_of(*parts: tuple[MirroredBatch, int], most: int = JOINED_BYTES) -> tuple[int, int]:
    """Return how many records the first batch has, and of how many batches it was made."""
    data, count = first_joined((each.data for each, _ in parts), most)
    assert count > 1 or data is parts[0][0].data
    return read_header(data).records_count, count


def test_the_first_batches_become_one_as_far_as_they_may() -> None:
    small = [batch(0, 1), batch(1, 2), batch(3, 1)]
    assert first_of(*small) == (4, 3)
    assert first_of(*small, batch(4, 1, codec=Codec.LZ4)) == (4, 3)
    assert first_of(*small, batch(4, 1, SMALL_BYTES), batch(5, 1)) == (4, 3)
    assert first_of(batch(4, 1, SMALL_BYTES), batch(5, 1)) == (1, 1)
    assert first_of(*small, most=len(small[0][0].data) + len(small[1][0].data)) == (3, 2)
    assert first_of(*small, most=0) == (1, 1)
    assert first_of(batch(0, 1), expanding(1, Codec.ZSTD, 2_000_000), batch(2, 1)) == (1, 1)


def test_what_cannot_be_decoded_passes_as_it_is() -> None:
    """Its checksum is right. The target says what it thinks of it."""
    header = BatchHeader._make(HEADER.unpack_from(batch(2, 1)[0].data))
    damaged = MirroredBatch(pack_header(header, b"\x7f" * 20), ((2, 1),), False), 3
    found = list(joined([batch(0, 1), batch(1, 1), damaged, batch(3, 1), batch(4, 1)], JOINED_BYTES))
    assert [(each.offsets, position) for each, position in found if each is not None] == [
        (((0, 2),), 2),
        (((2, 1),), 3),
        (((3, 2),), 5),
    ]
    assert found[1] == damaged


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([1, 40, SMALL_BYTES]), st.sampled_from([0, 3]), st.integers(0, 2))
    ),
    st.sampled_from([100, 1000, JOINED_BYTES]),
)
def test_nothing_is_lost(parts: list[tuple[int, int, int, int]], most: int) -> None:
    given: list[tuple[MirroredBatch | None, int]] = []
    at = 0
    for count, size, codec, gap in parts:
        at += gap
        given.append(batch(at, count, size, codec) if count else (None, at + 1))
        at = given[-1][1]
    found = list(joined(given, most))
    assert placed(found) == placed(given)
    assert [position for _, position in found] == sorted(position for _, position in found)
    assert not given or found[-1][1] == given[-1][1]
    sent = [each for each, _ in found if each is not None]
    assert all(len(each.data) <= most or not each.decoded for each in sent)
    assert sum(count for each in sent for _, count in each.offsets) == sum(count for count, *_ in parts)

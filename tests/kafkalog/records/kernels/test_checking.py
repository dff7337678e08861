"""Test that the compiled kernel and its plain Python twin check sound and damaged batches alike."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from kafkalog.records import checking
from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch, pack_header, read_header, seal_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import CorruptRecordError, InvalidRecordError, RecordsError
from kafkalog.records.kernels.abi import check_layout as c
from kafkalog.records.kernels.abi import table as t
from kafkalog.records.legacy.message_set import encode_message_set
from tests.support.sources.checked_kernels import checked_kernels


@pytest.fixture(params=["plain", "compiled", "checked"])
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "checked":
        with checked_kernels():
            yield
        return
    if request.param == "compiled":
        checking.load()
    else:
        monkeypatch.setattr(checking, "_fast", None)
    yield


def sample(base: int = 0, count: int = 5, codec: int = Codec.NONE, gaps: bool = False) -> bytearray:
    records = [
        Record(base + i * (3 if gaps else 1), 1000 + i, b"key%d" % i, None if i == 1 else b"v" * 100 * i, headers)
        for i, headers in enumerate([(), (("h", b"1"), ("n", None)), (), (), ()][:count])
    ]
    return encode_batch(records, codec=codec, base_offset=base)


def whole(buf: bytes | bytearray) -> tuple[checking.Scan, list[tuple[int, RecordsError]], checking.Counts]:
    counts = checking.Counts()
    scan = checking.scan(buf, 0, 0)
    return scan, checking.check(buf, scan.table, counts), counts


@pytest.mark.usefixtures("_mode")
def test_sound_batches_of_every_kind_are_counted() -> None:
    parts, offset = [], 0
    for codec in Codec:
        for gaps in (False, True):
            parts.append(sample(offset, codec=codec, gaps=gaps))
            offset = read_header(parts[-1]).next_offset
    parts.append(pack_header(read_header(encode_batch([], base_offset=offset))._replace(last_offset_delta=9), b""))
    scan, wrong, counts = whole(b"".join(parts))
    assert scan.error is None
    assert not wrong
    assert scan.next_offset == offset + 10
    assert len(scan.table) == len(parts)
    assert counts[c.RECORDS] == 50
    assert counts[c.KEY_BYTES] == 50 * 4
    assert counts[c.VALUE_BYTES] == 10 * 900
    assert counts[c.NULL_VALUES] == 10
    assert counts[c.NULL_KEYS] == 0
    assert (counts[c.HEADERS], counts[c.HEADER_BYTES]) == (20, 30)
    assert (counts[c.LARGEST_KEY], counts[c.LARGEST_VALUE]) == (4, 400)


@pytest.mark.usefixtures("_mode")
def test_old_formats_among_batches() -> None:
    records = [Record(i, 5, None, b"x" * 10) for i in range(4)]
    parts = [
        encode_message_set(records, magic=0),
        encode_message_set([r._replace(offset=r.offset + 4) for r in records], magic=1, codec=Codec.GZIP),
        sample(8),
    ]
    data = b"".join(parts)
    rows, pos, following = 0, 0, 0
    counts = checking.Counts()
    while pos < len(data):
        scan = checking.scan(data, pos, following)
        assert scan.error is None
        assert checking.check(data, scan.table, counts) == []
        rows, pos, following = rows + len(scan.table), scan.position, scan.next_offset
    assert (rows, following) == (6, 13)
    assert counts[c.RECORDS] == 13
    assert counts[c.NULL_KEYS] == 8


@pytest.mark.usefixtures("_mode")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_wrong_batch_is_named_and_the_others_are_counted(codec: Codec) -> None:
    parts = [sample(5 * i, codec=codec) for i in range(4)]
    parts[1][-1] ^= 0x55
    for damaged, where in ((1, ["CRC"]), (2, ["CRC", "CRC"])):
        if damaged == 2:
            parts[2][HEADER_SIZE + 2] ^= 1
        _, wrong, counts = whole(b"".join(parts))
        assert [row for row, _ in wrong] == [1, 2][:damaged]
        assert all(word in str(error) for word, (_, error) in zip(where, wrong, strict=True))
        assert counts[c.RECORDS] == 5 * (4 - damaged)


@pytest.mark.usefixtures("_mode")
def test_records_that_are_wrong_under_a_right_checksum() -> None:
    header = read_header(sample())
    body = bytes(sample()[HEADER_SIZE:])
    one = pack_header(header._replace(records_count=6, last_offset_delta=5), body)
    two = pack_header(header._replace(base_offset=6, records_count=4, last_offset_delta=4), body)
    three = pack_header(header._replace(base_offset=11, last_offset_delta=4), body.replace(b"\x08", b"\x02", 1))
    _, wrong, counts = whole(b"".join((one, two, three, sample(20))))
    assert [row for row, _ in wrong][:2] == [0, 1]
    assert "before as many records" in str(wrong[0][1])
    assert "bytes follow the last record" in str(wrong[1][1])
    assert all(isinstance(error, InvalidRecordError | CorruptRecordError) for _, error in wrong)
    assert counts[c.RECORDS] in (5, 10)


@pytest.mark.usefixtures("_mode")
def test_where_no_batch_begins_is_an_error() -> None:
    scan = checking.scan(sample() + bytes(200), 0, 0)
    assert len(scan.table) == 1
    assert scan.position == len(sample())
    # Zeros look like a message of v0 of no bytes.
    assert isinstance(scan.error or checking.scan(bytes(200), 0, 0).error, RecordsError)
    back = checking.scan(bytes(sample(10) + sample(12)), 0, 0)
    assert len(back.table) == 1
    assert back.error is not None
    assert isinstance(checking.scan(b"\x07" * 300, 0, 0).error, RecordsError)


def test_the_twins_agree_on_damage() -> None:
    """Of random bytes changed in a batch whose checksum was made right again, both say the same."""
    with checked_kernels():
        compare_on_damage()


def compare_on_damage() -> None:
    compiled = checking._fast
    rng = random.Random(4)
    original = bytes(sample(count=5))
    for _ in range(400):
        data = bytearray(original)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(HEADER_SIZE, len(data))] = rng.randrange(256)
        batch = bytes(seal_batch(read_header(data), data))
        said = []
        for mode in (compiled, None):
            checking._fast = mode
            try:
                _, wrong, counts = whole(batch)
            finally:
                checking._fast = compiled
            said.append(([(row, type(e), str(e)) for row, e in wrong], counts.words.tolist()))
        assert said[0] == said[1]


def test_tables_agree() -> None:
    checking.load()
    data = b"".join(bytes(sample(5 * i, codec=codec)) for i, codec in enumerate(Codec))
    fast = checking.scan(data, 0, 0).table
    slow = checking._scan_plain(data, 0, 0).table
    assert np.array_equal(fast, slow)
    assert fast.shape == (5, t.WIDTH)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_no_kernel_is_compiled_for_buffers_of_other_kinds(kind: type) -> None:
    """Numba would compile it in the process, which takes seconds, if its arrays could be written to."""
    from kafkalog.records.kernels.compiled import log_checking, reading

    checking.load()
    kernels = (reading.scan_batches, log_checking.check_batches, log_checking.check_records)
    before = [len(kernel.overloads) for kernel in kernels]
    scan, wrong, counts = whole(kind(sample(gaps=True)))
    assert (scan.error, wrong, counts[c.RECORDS]) == (None, [], 5)
    _, wrong, _ = whole(kind(sample(codec=Codec.LZ4)))
    assert not wrong
    # Where an array can be written to all the same, what is compiled for the others serves it.
    reading.scan_batches(np.zeros(100, np.uint8), 0, 0, 0, np.zeros((1, t.WIDTH), np.int64))
    assert [len(kernel.overloads) for kernel in kernels] == before
    with pytest.raises(TypeError, match="No matching definition"):
        reading.scan_batches(np.zeros(100, np.float32), 0, 0, 0, np.zeros((1, t.WIDTH), np.int64))

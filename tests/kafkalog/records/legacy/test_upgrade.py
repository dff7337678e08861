"""Test that one pass converts a compressed set of v0 or v1 to a batch of v2, or leaves it to the slow path."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.append.legacy.message_sets import prepare_set
from broker.log.append.validation import Origin
from broker.log.log_config import LogConfig
from kafkalog.protocol.errors import KafkaError
from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from kafkalog.records.kernels.plain import upgrading as plain
from kafkalog.records.legacy import upgrade
from kafkalog.records.legacy.message_set import decode_entry, encode_message_set, read_entry, wrapped_set
from kafkalog.records.legacy.upgrade import Section, upgraded_section
from tests.support.sources.checked_kernels import checked_kernels

CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
LIMIT = 1 << 20
CONFIG = LogConfig(max_message_bytes=1 << 24)

byte_strings = st.none() | st.binary(max_size=5) | st.sampled_from([b"k" * 63, b"k" * 64, b"v" * 9000])
timestamps = st.sampled_from([-1, 0, 5]) | st.integers(-1, (1 << 62) - 1)
contents = st.lists(st.tuples(timestamps, byte_strings, byte_strings), min_size=1, max_size=90)


def records_of(rows: Sequence[tuple[int, bytes | None, bytes | None]], magic: int) -> list[Record]:
    return [Record(at, time if magic else -1, key, value) for at, (time, key, value) in enumerate(rows)]


@pytest.fixture(autouse=True, params=["plain", "compiled", "checked"], scope="module")
def compiled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """All ways of doing it must do the same."""
    if request.param == "checked":
        with checked_kernels():
            yield True
        return
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            upgrade.load()
        else:
            patch.setattr(upgrade, "_fast", None)
        yield request.param == "compiled"


def section_of(data: bytes | bytearray) -> Section | None:
    header = read_entry(data)
    return upgraded_section(header, wrapped_set(data, 0, header), max_size=LIMIT)


@given(contents, st.sampled_from([0, 1]), st.sampled_from(CODECS))
def test_it_is_what_the_records_one_by_one_become(
    rows: list[tuple[int, bytes | None, bytes | None]], magic: int, codec: Codec
) -> None:
    records = records_of(rows, magic)
    data = encode_message_set(records, magic=magic, codec=codec)
    section = section_of(data)
    assert section is not None
    assert section.body == encode_batch(records)[HEADER_SIZE:]
    assert section.records_count == len(records)
    assert section.null_keys == sum(record.key is None for record in records)
    assert section.max_timestamp == max(record.timestamp for record in records)
    known = [record.timestamp for record in records if record.timestamp != -1]
    assert section.earliest == min(known, default=-1)
    prepared = prepare_set(memoryview(data), CONFIG, 0, Origin.CLIENT, "t-0")
    assert prepared is not None
    assert prepared.data == encode_batch(records, codec=codec)
    assert (prepared.count, prepared.converted, prepared.magic) == (len(records), len(records), 2)
    assert prepared.max_timestamp == section.max_timestamp


def test_golden_bytes() -> None:
    data = encode_message_set([Record(0, 7, b"k", b"v"), Record(1, 9, None, None)], magic=1, codec=Codec.GZIP)
    section = section_of(data)
    assert section == Section(bytearray.fromhex("10 00 00 00 02 6b 02 76 00  0c 00 04 02 01 01 00"), 2, 7, 9, 7, 1)


@given(contents, st.sampled_from([0, 1]), st.data())
def test_damaged_messages_are_refused_as_one_by_one(
    rows: list[tuple[int, bytes | None, bytes | None]], magic: int, data: st.DataObject
) -> None:
    """Whatever bytes there are within, it finds what the other way finds, or leaves them to it."""
    inner = encode_message_set(records_of(rows, magic), magic=magic)
    for _ in range(data.draw(st.integers(1, 3))):
        inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(0, 255))
    inner = inner[: data.draw(st.integers(0, len(inner)))]
    wrapper = read_entry(encode_message_set([Record(0, 3, None, bytes(inner))], magic=magic))
    wrapper = wrapper._replace(base_offset=0)
    section = upgraded_section(wrapper, inner, max_size=LIMIT)
    if section is None:
        return
    one_by_one: list[Record] = []
    at = 0
    while at < len(inner):
        one_by_one += decode_entry(inner, at)
        at += read_entry(inner, at).size
    expected = [record._replace(offset=number) for number, record in enumerate(one_by_one)]
    assert section.body == encode_batch(expected)[HEADER_SIZE:]


@pytest.mark.parametrize("damage", ["checksum", "short", "other format", "compressed twice", "nothing"])
def test_what_is_not_sound_is_left_to_the_other_way(damage: str) -> None:
    records = records_of([(1, b"a", b"b"), (2, None, b"c")], 1)
    inner = encode_message_set(records, magic=1)
    if damage == "checksum":
        inner[-1] ^= 1
    elif damage == "short":
        del inner[-1]
    elif damage == "other format":
        inner += encode_message_set(records[:1], magic=0)
    elif damage == "compressed twice":
        inner += encode_message_set(records[:1], magic=1, codec=Codec.GZIP)
    else:
        inner.clear()
    wrapper = read_entry(encode_message_set(records, magic=1, codec=Codec.GZIP))
    assert upgraded_section(wrapper, inner, max_size=LIMIT) is None


def test_offsets_that_cannot_be_are_left_to_the_other_way() -> None:
    records = records_of([(1, b"a", b"b"), (2, None, b"c")], 1)
    inner = encode_message_set(records, magic=1)
    wrapper = read_entry(encode_message_set(records, magic=1, codec=Codec.GZIP))
    behind = Record(9, 1, None, None)
    inner += encode_message_set([behind], magic=1)
    assert upgraded_section(wrapper, inner, max_size=LIMIT) is None
    assert upgraded_section(wrapper._replace(base_offset=0), inner, max_size=LIMIT) is not None


def test_timestamps_too_far_apart_are_left_to_the_other_way() -> None:
    """Their difference would not fit a varlong."""
    records = [Record(0, -(1 << 62), None, b"a"), Record(1, 1 << 62, None, b"b"), Record(2, (1 << 63) - 1, None, b"c")]
    wrapper = read_entry(encode_message_set(records[:1], magic=1, codec=Codec.GZIP))._replace(base_offset=0)
    near, far = (encode_message_set(records[:count], magic=1) for count in (2, 3))
    section = upgraded_section(wrapper, near[: len(near) // 2], max_size=LIMIT)
    assert section is not None
    assert upgraded_section(wrapper, far, max_size=LIMIT) is None


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
def test_bytes_of_any_kind(data: bytes, magic: int) -> None:
    wrapper = read_entry(encode_message_set(records_of([(1, b"a", b"b")], magic), magic=magic))
    assert upgraded_section(wrapper, data, max_size=LIMIT) is None


@given(contents, st.sampled_from([0, 1]), st.integers(0, 2000), st.data())
def test_compiled_and_plain_give_the_same(
    rows: list[tuple[int, bytes | None, bytes | None]], magic: int, max_size: int, data: st.DataObject
) -> None:
    """Damage with a checksum that is right, too: each field is checked, not only what the checksum covers."""
    messages = bytearray()
    for record in records_of(rows, magic):
        message = encode_message_set([record], magic=magic)
        if data.draw(st.integers(0, 9)) == 0:
            message[data.draw(st.integers(8, len(message) - 1))] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
            message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
        messages += message
    wrapper = read_entry(encode_message_set(records_of(rows, magic), magic=magic))._replace(base_offset=0)
    body, words = bytearray(), [0] * 7
    sound = plain.upgrade_messages(messages, magic, max_size, body, words)
    section = upgraded_section(wrapper, messages, max_size=max_size)
    assert (section is not None) == sound
    if section is not None:
        size, count, first, latest, earliest, null_keys, _ = words
        assert section == Section(body, count, first, latest, earliest, null_keys)
        assert size == len(body)


def test_a_set_that_is_refused_says_why() -> None:
    data = encode_message_set(records_of([(1, None, b"b")], 1), magic=1, codec=Codec.GZIP)
    with pytest.raises(KafkaError, match="have no key"):
        prepare_set(memoryview(data), CONFIG.with_changes(cleanup_policy=("compact",)), 0, Origin.CLIENT, "t-0")
    late = CONFIG.with_changes(message_timestamp_before_max_ms=10)
    with pytest.raises(KafkaError, match="invalid timestamp"):
        prepare_set(memoryview(data), late, 1000, Origin.CLIENT, "t-0")
    data[-1] ^= 1
    with pytest.raises((KafkaError, RecordsError), match="CRC"):
        prepare_set(memoryview(data), CONFIG, 0, Origin.CLIENT, "t-0")

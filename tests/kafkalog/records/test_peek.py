"""Test that a view of a record's first bytes agrees with the header, and that no bytes make it fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE, encode_message_set
from kafkalog.records.peek import NO_MAGIC, RecordsView

RECORDS = [Record(0, 1, b"k", b"v" * 50, ())]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch(codec: Codec, transactional: bool) -> None:
    data = encode_batch(RECORDS, codec=codec, is_transactional=transactional, producer_id=1, producer_epoch=0)
    view = RecordsView(memoryview(data))
    assert (view.size, view.magic, view.codec, view.is_transactional) == (len(data), 2, codec, transactional)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_message_set(magic: int, codec: Codec) -> None:
    view = RecordsView(memoryview(encode_message_set(RECORDS, magic=magic, codec=codec)))
    assert (view.magic, view.codec, view.is_transactional) == (magic, codec, False)


@given(st.one_of(st.none(), st.binary(max_size=80)))
def test_any_bytes(data: bytes | None) -> None:
    view = RecordsView(None if data is None else memoryview(data))
    assert view.size == len(data or b"")
    assert (view.magic == NO_MAGIC) == (view.size < MIN_ENTRY_SIZE)
    assert not view.is_transactional or (view.magic == 2 and view.size >= 61)

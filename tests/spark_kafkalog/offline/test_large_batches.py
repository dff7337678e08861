"""Test that a batch which expands too far ends a query, and is never taken for damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from spark_kafkalog.executor.batch_pieces import BatchTooLargeError
from tests.spark_kafkalog.offline.written import T0_MS, batch, offsets, write_segment

TOO_LARGE = r"record batch of t-0 at offset 2 or later: .*expands to more than 1024 bytes.* is maxBatchBytes: set it"


@pytest.mark.parametrize("fail", [True, False])
def test_the_query_ends_and_names_the_option(tmp_path: Path, fail: bool) -> None:
    write_segment(tmp_path / "t-0", [batch(0, 2), batch(2, 2, codec=Codec.ZSTD, size=5000), batch(4, 2)])
    with pytest.raises(BatchTooLargeError, match=TOO_LARGE):
        offsets(tmp_path, failOnDataLoss=fail, maxBatchBytes="1k")
    assert offsets(tmp_path, maxBatchBytes="16k") == list(range(6))


def test_the_query_ends_at_a_large_wrapper_of_v1(tmp_path: Path) -> None:
    records = [Record(n, T0_MS, None, bytes(2000)) for n in (2, 3)]
    wrapper = bytes(encode_message_set(records, magic=1, codec=Codec.GZIP))
    segment = write_segment(tmp_path / "t-0", [batch(0, 2)], index_every=0)
    segment.write_bytes(segment.read_bytes() + wrapper)
    with pytest.raises(BatchTooLargeError, match=TOO_LARGE):
        offsets(tmp_path, failOnDataLoss=False, maxBatchBytes="1k")
    assert offsets(tmp_path) == list(range(4))


def test_what_kafka_accepts_is_read_by_default(tmp_path: Path) -> None:
    value = bytes(1_000_000)
    large = encode_batch([Record(n, T0_MS, None, value) for n in range(140)], codec=Codec.ZSTD)
    assert len(large) < 10_000
    write_segment(tmp_path / "t-0", [bytes(large), batch(140, 2)])
    assert offsets(tmp_path) == list(range(142))

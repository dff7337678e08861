"""Test the compiled kernels against their twins in plain Python, and how they are loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi import status as s
from kafkalog.records.kernels.plain import reading as plain
from kafkalog.records.varint import append_varint, int64
from tests.kafkalog.records.support import record_lists

pytestmark = pytest.mark.usefixtures("each_build")


def _both(
    data: bytes, start: int, end: int, count: int, require_keys: bool = False, base_timestamp: int = 0
) -> tuple[int, int, int, int]:
    expected = plain.validate_records(data, start, end, count, base_timestamp, require_keys)
    assert loader.validate_records(data, start, end, count, base_timestamp, require_keys) == expected
    return expected


@given(record_lists(), st.booleans())
def test_whole_batches_get_the_same_answer(records: list[Record], require_keys: bool) -> None:
    batch = bytes(encode_batch(records))
    status, *_ = _both(batch, HEADER_SIZE, len(batch), len(records), require_keys)
    assert status in (s.OK, s.BAD_DELTA, s.NO_KEY)


@settings(max_examples=400)
@given(record_lists(max_size=4), st.data())
def test_mutated_batches_get_the_same_answer(records: list[Record], data: st.DataObject) -> None:
    batch = encode_batch([record._replace(offset=index) for index, record in enumerate(records)])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
        batch[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
    _both(bytes(batch), HEADER_SIZE, len(batch), data.draw(st.integers(0, len(records) + 1)))


@settings(max_examples=400)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_random_bytes_get_the_same_answer(data: bytes, count: int) -> None:
    _both(data, 0, len(data), count)


@given(record_lists(max_size=4))
def test_every_truncation_gets_the_same_answer(records: list[Record]) -> None:
    short = [record._replace(offset=index, value=(record.value or b"")[:30]) for index, record in enumerate(records)]
    batch = bytes(encode_batch(short))
    for end in range(HEADER_SIZE, len(batch)):
        status, *_ = _both(batch, HEADER_SIZE, end, len(records))
        assert status != s.OK


INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1])


@given(INT64, INT64)
def test_timestamps_of_any_size_wrap_around(base: int, delta: int) -> None:
    section = bytearray(1)
    append_varint(section, delta)
    section += bytes((0, 1, 1, 0))
    section = bytearray((2 * len(section),)) + section
    timestamp = int64(base + delta)
    assert _both(bytes(section), 0, len(section), 1, base_timestamp=base) == (s.OK, 1, timestamp, timestamp)


@pytest.mark.parametrize(
    ("varint", "status"),
    [
        (b"\xff" * 9 + b"\x01", s.OK),
        (b"\xff" * 9 + b"\x02", s.BAD_VARINT),
        (b"\xff" * 10 + b"\x01", s.BAD_VARINT),
        (b"\x80" * 9 + b"\x00", s.OK),
    ],
)
def test_longest_timestamp_deltas(varint: bytes, status: int) -> None:
    body = b"\x00" + varint + b"\x00\x01\x01\x00"
    section = bytes((2 * len(body),)) + body
    assert _both(section, 0, len(section), 1)[0] == status


@pytest.mark.parametrize("varint", [b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"])
def test_offset_deltas_of_more_than_32_bits(varint: bytes) -> None:
    body = b"\x00\x00" + varint + b"\x01\x01\x00"
    section = bytes((2 * len(body),)) + body
    assert _both(section, 0, len(section), 1)[0] == s.BAD_VARINT


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(wrap: type) -> None:
    batch = bytes(encode_batch([Record(0, 5, b"k", b"v"), Record(1, 3, b"k", b"v")]))
    answer = loader.validate_records(wrap(batch), HEADER_SIZE, len(batch), 2, 10, True)
    assert answer == (s.OK, 2, 8, 10)


def test_nothing_is_read_outside_the_buffer() -> None:
    assert loader.validate_records(b"\x02", 0, 1 << 40, 1 << 30, 0, False)[0] == s.TRUNCATED
    assert loader.validate_records(b"\x02", -5, 1, 1, 0, False)[0] == s.TRUNCATED


def _python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("processes")
def test_importing_loads_neither_numba_nor_numpy() -> None:
    imports = "import sys, kafkalog.records.kernels.loader, kafkalog.records.validate"
    assert _python(f"{imports}; print({{'numba', 'numpy'}} & set(sys.modules))").strip() == "set()"


_LOAD = """
import os
from pathlib import Path
from kafkalog.records.kernels.store import places
places.places = lambda: [Path(os.environ["KAFKALOG_KERNELS"])]
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.plain import reading as plain
loader.load_in_background().join()
assert loader.ready() and loader.validate_records is not plain.validate_records
assert loader.validate_records(b"", 0, 0, 0, 0, False) == (0, 0, 0, 0)
from kafkalog.records.kernels.compiled import reading
print(sum(reading.validate_records.stats.cache_misses.values()))
"""


@pytest.mark.usefixtures("processes")
def test_missing_kernels_are_compiled_by_another_process_and_kept(tmp_path: Path) -> None:
    assert _python(_LOAD, KAFKALOG_KERNELS=str(tmp_path)).strip() == "0"
    assert [each.name.partition(".")[0] for each in tmp_path.glob("*.kernels")] == ["validation"]

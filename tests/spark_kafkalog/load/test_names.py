"""Tests of the names of the layout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkalog.load.layout.file_names import (
    LAST_HOUR,
    LONGEST_TOPIC,
    NO_HOUR,
    REPLACED,
    file_name,
    hour_path,
    load_name,
    load_number,
    parse_file_name,
)

offsets = st.integers(0, (1 << 63) - 1)


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, (1 << 31) - 1), offsets, offsets)
def test_file_names_are_read_back(topic: str, partition: int, start: int, end: int) -> None:
    name = file_name(topic, partition, start, end, "parquet")
    assert parse_file_name(name) == (topic[:LONGEST_TOPIC], partition, start, end)
    assert len(name + REPLACED) < 255


@pytest.mark.parametrize("topic", ["_schemas", ".schemas", "__", "a_.b"])
def test_no_file_is_hidden_from_readers(topic: str) -> None:
    name = file_name(topic, 1, 2, 3, "parquet")
    assert not name.startswith(("_", "."))
    earlier = f"{topic}+1+{2:020}+{3:020}.parquet"
    assert parse_file_name(name) == parse_file_name(earlier) == (topic, 1, 2, 3)


@given(st.lists(st.integers(0, 10**12), min_size=2))
def test_load_names_are_read_back_and_sort_as_numbers(numbers: list[int]) -> None:
    assert [load_number(load_name(number)) for number in numbers] == numbers
    below = sorted(number for number in numbers if number < 10**10)
    assert sorted(map(load_name, below)) == [load_name(number) for number in below]


@pytest.mark.parametrize(
    "name",
    ["load=7", "load=00000000007", "load=", "load=abcdefghij", "_staging", "load=0000000007.x", "date=0000000007"],
)
def test_other_directories_are_no_loads(name: str) -> None:
    assert load_number(name) is None


@pytest.mark.parametrize(
    "name", ["part-0000.parquet", "a+1+2+3.parquet", "a+1+" + "0" * 20 + ".parquet", "_offsets.json"]
)
def test_other_files_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a load's file"):
        parse_file_name(name)


@pytest.mark.parametrize(
    ("hour", "path"),
    [
        (0, "date=1970-01-01/hour=00"),
        (472_222, "date=2023-11-14/hour=22"),
        (None, NO_HOUR),
        (LAST_HOUR, "date=9999-12-31/hour=23"),
    ],
)
def test_hours(hour: int | None, path: str) -> None:
    assert hour_path(hour) == path

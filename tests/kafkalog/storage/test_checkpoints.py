"""Tests of tables of offsets and of leader epochs: round trips, damage, and the rows kept of a damaged table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.storage.checkpoints import (
    MAX_INT,
    MAX_LONG,
    CorruptCheckpointError,
    can_have_a_row,
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
    salvage_offsets,
)

names = st.text("abcXYZ019._-", min_size=1, max_size=249)
keys = st.tuples(names, st.integers(0, MAX_INT))
tables = st.dictionaries(keys, st.integers(0, MAX_LONG), max_size=8)


@given(tables)
def test_a_table_is_read_as_it_was_written(table: dict[tuple[str, int], int]) -> None:
    assert parse_offsets(format_offsets(table)) == table


@given(st.lists(st.tuples(st.integers(0, MAX_INT), st.integers(0, MAX_LONG)), max_size=8))
def test_epochs_are_read_as_they_were_written(epochs: list[tuple[int, int]]) -> None:
    assert parse_epochs(format_epochs(epochs)) == epochs


@given(tables, names, st.text(min_size=1, max_size=3), st.integers(0, MAX_LONG))
def test_a_name_is_refused_or_read_again(table: dict[tuple[str, int], int], name: str, end: str, offset: int) -> None:
    """Whatever characters it has, what lies behind it in the table is not lost."""
    spoiled = {(name + end, 0): offset, **table}
    if can_have_a_row(name + end):
        assert parse_offsets(format_offsets(spoiled)) == spoiled
    else:
        with pytest.raises(ValueError, match="no row"):
            format_offsets(spoiled)


@pytest.mark.parametrize("code", [*range(0x21), *range(0x7F, 0xA1), 0x2028, 0x2029, 0x3000, 0xD800])
def test_names_with_control_characters_or_white_space_have_no_row(code: int) -> None:
    assert not any(map(can_have_a_row, (f"x{chr(code)}", f"{chr(code)}x", f"x{chr(code)}y", chr(code))))


@given(tables, st.integers(0, 8), st.binary(max_size=30).filter(lambda row: len(row.split()) != 3))
def test_rows_beside_one_that_does_not_read_are_kept(table: dict[tuple[str, int], int], at: int, row: bytes) -> None:
    head, count, *rows = format_offsets(table).split(b"\n")[:-1]
    rows.insert(at, row)
    data = b"\n".join([head, count, *rows, b""])
    found, problems = salvage_offsets(data)
    assert found == table
    assert bool(problems) == bool(row.strip())
    if problems:
        with pytest.raises(CorruptCheckpointError):
            parse_offsets(data)


@given(tables.filter(bool), st.data())
def test_a_table_that_was_cut_says_nothing_wrong(table: dict[tuple[str, int], int], data: st.DataObject) -> None:
    """Part of an offset is an offset, too: at most a lower one, of the last row alone, is taken for the whole."""
    whole = format_offsets(table)
    cut = data.draw(st.integers(whole.index(b"\n", 2) + 1, len(whole) - 1))
    found, problems = salvage_offsets(whole[:cut])
    assert len(found) >= whole[:cut].count(b"\n") - 2
    assert bool(problems) == (len(found) < len(table))
    if problems:
        assert found.items() <= table.items()
    else:
        assert all(offset <= table[key] for key, offset in found.items())


@given(st.binary(max_size=200))
def test_whatever_the_file_holds_it_is_refused_or_read(data: bytes) -> None:
    for parse in (parse_offsets, salvage_offsets, parse_epochs):
        try:
            parse(data)
        except CorruptCheckpointError:
            continue


def test_an_empty_file_has_no_rows() -> None:
    """Apache Kafka makes it so."""
    assert parse_offsets(b"") == {}
    assert parse_epochs(b"") == []


@pytest.mark.parametrize("data", [b"\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\nx\n", b"0\n1\n\x00\x00\n", b"0\n1\n0 -1\n"])
def test_damaged_epochs_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        parse_epochs(data)

"""Test that `_offsets.json` is read back unchanged, and that other documents are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkalog.load.layout.offsets_document import DataFile, DocumentError, Lost, Offsets, PartitionOffsets

numbers = st.integers(0, (1 << 31) - 1)
times = st.none() | st.integers(0, (1 << 63) - 1)


@st.composite
def documents(draw: st.DrawFn) -> Offsets:
    partitions: dict[int, PartitionOffsets] = {}
    files: list[DataFile] = []
    for number in draw(st.lists(numbers, unique=True, max_size=4)):
        start = draw(st.integers(0, 1 << 40))
        sizes = draw(st.lists(st.integers(1, 1 << 20), max_size=3))
        at = start
        for size in sizes:
            path = f"date=2026-11-21/hour=18/{draw(st.text(max_size=9))}"
            low = draw(times)
            high = None if low is None else low + 1
            files.append(DataFile(path, number, at, at + size - 1, size, 8 * size, "00c0ffee", low, high))
            at += size
        partitions[number] = PartitionOffsets(start, at + draw(st.integers(0, 9)), sum(sizes))
    load = draw(st.integers(0, 1 << 40))
    return Offsets(
        topic=draw(st.text(min_size=1, max_size=9)),
        topic_id=draw(st.text(max_size=22)),
        load=load,
        previous_load=None if load == 0 else draw(st.none() | st.integers(0, load - 1)),
        run_id=draw(st.text(min_size=1, max_size=9)),
        created_at="2026-11-21T18:00:00.000+00:00",
        format="parquet",
        partitions=partitions,
        files=tuple(files),
        lost=tuple(Lost(number, 1, 5, "the log now begins at 5") for number in sorted(partitions)[:1]),
        restarted=draw(st.booleans()),
        versions={"kafkalog": "1"},
    )


@given(documents())
def test_round_trip(document: Offsets) -> None:
    assert Offsets.from_json(document.to_json()) == document
    assert Offsets.from_json(document.to_json().encode()) == document


def sample() -> dict[str, Any]:
    file = DataFile("date=2026-11-21/hour=18/x", 0, 3, 7, 5, 99, "00c0ffee", 1, 2)
    document = Offsets(
        "words", "id", 4, 3, "run", "2026", "parquet", {0: PartitionOffsets(3, 8, 5)}, (file,), (Lost(0, 1, 2, "why"),)
    )
    found: dict[str, Any] = json.loads(document.to_json())
    return found


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0])
def test_other_versions_are_refused(version: object) -> None:
    with pytest.raises(DocumentError, match="version"):
        Offsets.from_json(json.dumps(sample() | {"version": version}))


@pytest.mark.parametrize("name", sorted(sample().keys() - {"minTimestamp", "maxTimestamp", "bytes"}))
def test_every_field_is_needed(name: str) -> None:
    document = sample()
    del document[name]
    with pytest.raises(DocumentError, match=name):
        Offsets.from_json(json.dumps(document))


@pytest.mark.parametrize("name", sorted(sample()["files"][0]))
def test_every_field_of_a_file_is_needed(name: str) -> None:
    document = sample()
    document["files"][0][name] = ["wrong"]
    with pytest.raises(DocumentError, match=name):
        Offsets.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        {"load": 3},
        {"rows": 6},
        {"partitions": {"0": {"start": 9, "end": 8, "rows": 5}}},
        {"partitions": {"-1": {"start": 3, "end": 8, "rows": 5}}},
        {"partitions": {"1": {"start": 3, "end": 8, "rows": 5}}},
        {"partitions": {"0": {"start": 4, "end": 8, "rows": 5}}},
        {"partitions": []},
        {"files": {}},
        {"restarted": 1},
    ],
)
def test_contradictions_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DocumentError):
        Offsets.from_json(json.dumps(sample() | change))


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '"x"', "null"])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        Offsets.from_json(text)


def test_unknown_fields_are_passed_over() -> None:
    assert Offsets.from_json(json.dumps(sample() | {"note": "x"})).load == 4

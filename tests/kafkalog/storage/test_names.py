"""Tests of names of topics, files and directories, and of the set of files in a partition's directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.storage import names
from kafkalog.storage.listing import SegmentName, listing, snapshots, swapped
from kafkalog.storage.topics import has_legal_characters, is_legal_topic

LEGAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
topics = st.text(LEGAL, min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))
partitions = st.integers(0, names.MAX_PARTITION)


@given(topics, st.characters(exclude_characters=LEGAL), st.integers(0, 249))
def test_a_name_with_any_other_character_anywhere_is_no_topics(name: str, character: str, at: int) -> None:
    assert is_legal_topic(name)
    assert has_legal_characters(name)
    for spoiled in (name + character, character + name, name[:at] + character + name[at:]):
        assert not is_legal_topic(spoiled)
        assert not has_legal_characters(spoiled)


def test_names_that_would_make_no_directory() -> None:
    assert not any(map(is_legal_topic, ("", ".", "..", "a" * 250)))
    assert is_legal_topic("a" * 249)


@given(topics, partitions)
def test_directory_names_are_read_as_they_were_made(topic: str, partition: int) -> None:
    served = names.partition_dir(topic, partition)
    assert names.parse_served_dir(served) == (topic, partition)
    assert names.parse_partition_dir(served) == (topic, partition)
    future = names.future_dir(topic, partition)
    assert names.parse_partition_dir(future) == (topic, partition)
    assert names.parse_served_dir(future) is None
    doomed = names.delete_dir(topic, partition)
    assert len(doomed) <= names.MAX_NAME
    assert names.parse_served_dir(doomed) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic-3", ("topic", 3)),
        ("a-b.c_d-0", ("a-b.c_d", 0)),
        ("x-delete-0", ("x-delete", 0)),
        ("topic-3.0123456789abcdef0123456789abcdef-delete", None),
        ("topic-3.0123456789abcdef0123456789abcdef-future", None),
        ("topic-3.0123456789abcdef0123456789abcdef-stray", None),
        ("topic-03", None),
        ("topic-99999999999", None),
        ("topic", None),
        ("-3", None),
        ("ä-3", None),
        ("topic\n-3", None),
        ("topic-3\n", None),
        (" -3", None),
        ("..-3", None),
    ],
)
def test_directory_names(name: str, expected: tuple[str, int] | None) -> None:
    assert names.parse_served_dir(name) == expected


def files_of(*bases: int, suffix: str = "") -> list[str]:
    return [f"{base:020d}{kind}{suffix}" for base in bases for kind in (".log", ".index", ".timeindex")]


def test_files_that_kafka_removes_on_start_are_no_segments() -> None:
    files = [
        *files_of(0, 50),
        *files_of(0, suffix=".cleaned"),
        *files_of(50, suffix=".deleted"),
        "leader-epoch-checkpoint",
    ]
    found = listing([*files, *files_of(90, suffix=".swap"), "notes.log", "00000000000000000070.snapshot"])
    assert found.segments == (SegmentName(0, ""), SegmentName(50, ""))
    # At or behind the first .cleaned file: of a split that was not finished.
    assert found.swaps == ()
    assert found.in_motion
    assert not listing(files_of(0, 50)).in_motion


def test_a_swap_takes_the_place_of_what_it_was_compacted_from() -> None:
    found = listing([*files_of(0, 100, 200), *files_of(0, suffix=".swap")])
    assert found.swaps == (SegmentName(0, ".swap"),)
    assert swapped(found.segments, found.swaps, 150) == (SegmentName(0, ".swap"), SegmentName(200, ""))
    assert swapped(found.segments[2:], found.swaps, 150) == (SegmentName(0, ".swap"), SegmentName(200, ""))


def test_snapshots_are_found_newest_first() -> None:
    found = ["00000000000000000007.snapshot", "00000000000000000120.snapshot", "00000000000000000009.snapshot.deleted"]
    assert snapshots([*found, "7.snapshot", "00000000000000000121.log"]) == [120, 7]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("00000000000000000007.log", (7, ".log", "")),
        ("00000000000000000007.timeindex.swap", (7, ".timeindex", ".swap")),
        ("00000000000000000007.log.deleted", (7, ".log", ".deleted")),
        ("0000000000000000007.log", None),
        ("00000000000000000007.log\n", None),
        ("00000000000000000007.log.bak", None),
        ("00000000000000000007.txt", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_names_of_a_segments_files(name: str, parts: tuple[int, str, str] | None) -> None:
    assert names.parse_segment_name(name) == parts

"""Tests of the pure parts of `kafkalog groups`: points in time, plans as CSV, tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.cli.admin.groups.common import Column, parse_topic, table
from kafkalog.cli.admin.groups.plan_files import read_plans, write_plans
from kafkalog.cli.admin.groups.times import duration_ms, timestamp_of
from kafkalog.cli.shared.client_options import UsageError
from kafkalog.client.types import TopicPartition

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=40)
PLANS = st.dictionaries(
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1),
    st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 9)), st.integers(0, 2**63 - 1), min_size=1),
)


@settings(max_examples=30)
@given(PLANS)
def test_plans_of_groups_come_back(plans: dict[str, dict[TopicPartition, int]]) -> None:
    text = write_plans(plans, with_group=True)
    assert read_plans(text.splitlines(keepends=True), plans) == plans


@settings(max_examples=30)
@given(st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 9)), st.integers(0, 2**63 - 1), min_size=1))
def test_a_plan_of_one_group_comes_back(plan: dict[TopicPartition, int]) -> None:
    text = write_plans({"g": plan}, with_group=False)
    assert read_plans(text.splitlines(keepends=True), ["g"]) == {"g": plan}
    with pytest.raises(ValueError, match="line 1 names no group"):
        read_plans(text.splitlines(), ["g", "h"])


def test_a_plan_that_kafka_wrote() -> None:
    """Jackson quotes every string of more than 24 characters."""
    text = 'g,"a-topic-whose-name-is-long-enough",0,12\ng,t,1,3\n'
    expected = {TopicPartition("a-topic-whose-name-is-long-enough", 0): 12, TopicPartition("t", 1): 3}
    assert read_plans(text.splitlines(), []) == {"g": expected}


@pytest.mark.parametrize("line", ["t,0", "t,zero,1", "t,0,", "g,t,0,1,2", "t" * 200_000])
def test_a_line_that_is_no_plan(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        read_plans(["t,0,1", line], ["g"])


def test_a_partition_twice() -> None:
    with pytest.raises(ValueError, match="line 3: partition t-0 of group g a second time"):
        read_plans(["t,0,1", "t,1,1", "t,0,2"], ["g"])


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)),
    st.none() | st.integers(-14 * 60, 14 * 60),
)
def test_any_point_in_time(moment: datetime, offset: int | None) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    zone = UTC if offset is None else timezone(timedelta(minutes=offset))
    text = moment.isoformat(timespec="milliseconds")
    if offset is not None:
        text += f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
    elapsed = moment.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)
    assert timestamp_of(text) == elapsed // timedelta(milliseconds=1)


@pytest.mark.parametrize("text", ["2024-01-01", "yesterday", "2024-13-01T00:00:00.000", "2024-01-01 00:00:00.000", ""])
def test_no_point_in_time(text: str) -> None:
    with pytest.raises(ValueError, match="no point in time"):
        timestamp_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 172_800_000),
        ("P2DT3H4M", 183_840_000),
        ("PT-6H3M", -21_420_000),
        ("-PT6H3M", -21_780_000),
        ("-PT-6H+3M", 21_420_000),
        ("pt1.5s", 1_500),
        ("PT-0.5S", -500),
        ("PT0S", 0),
    ],
)
def test_durations_of_java(text: str, expected: int) -> None:
    """The first eight are the examples of java.time.Duration.parse."""
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1Y", "PT1D", "PT1.5M", "P-", "PTS"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration_ms(text)


def test_topics_and_partitions() -> None:
    assert parse_topic("words") == ("words", [])
    assert parse_topic("words:0,2") == ("words", [0, 2])
    for wrong in ("words:", ":1", "words:a", "words:-1", "words:1,"):
        with pytest.raises(UsageError, match="--topic"):
            parse_topic(wrong)


def test_a_table() -> None:
    columns = (Column("GROUP", 8, "group"), Column("N", 3, "n"), Column("ASSIGNMENT", 0, "assignment"))
    rows = [("a", 1, {"t": [0, 1], "u": [2]}), ("a-long-name", None, {}), ("b", 12345, None)]
    assert list(table(columns, rows)) == [
        "GROUP       N     ASSIGNMENT",
        "a           1     t:0,1;u:2",
        "a-long-name -     -",
        "b           12345 -",
    ]

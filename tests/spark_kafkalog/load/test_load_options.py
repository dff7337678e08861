"""Tests of the options of a load: what is refused, and how times are read."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_kafkalog.load.load_options import LoadOptions, parse_time, parse_until
from spark_kafkalog.options.limits import AtOffsets, AtTimestamp
from spark_kafkalog.options.parsing import OptionsError, parse_offsets
from tests.spark_kafkalog.topics import T0_MS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"topics": ()}, "names no topic"),
        ({"topics": ("..",)}, "is no name of a topic"),
        ({"topics": ("a/b",)}, "is no name of a topic"),
        ({"topics": (), "topic_pattern": ""}, "--topic-pattern is empty"),
        ({"format": "orc"}, "--format orc"),
        ({"stale_after_s": 1.0}, "--stale-after"),
        ({"max_batch_bytes": (2 << 30) + 1}, "--max-batch-bytes must be at most 2g"),
        ({"until": AtOffsets(parse_offsets("--until", '{"b":{"0":1}}'))}, "--until names the topics b"),
        ({"until": AtOffsets(parse_offsets("--until", '{"a":{"0":-2}}'))}, "cannot be used there"),
    ],
)
def test_options_that_are_wrong(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        LoadOptions(**{"bootstrap_servers": "x:1", "topics": ("a",), "to": "/x", **wrong})


@pytest.mark.parametrize("text", ["", " ", "yesterday", "-5", "2026-13-01", "1969-01-01", str(1 << 63)])
def test_times_that_are_wrong(text: str) -> None:
    with pytest.raises(OptionsError, match="--until"):
        parse_until(text)


def test_a_time_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        assert parse_until("2023-11-14T22:13:20") == parse_until(str(T0_MS)) == parse_until("2023-11-14T23:13:20+01:00")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("option", ["--until", "--from-timestamp"])
def test_a_date_without_dashes_is_not_taken_for_milliseconds(option: str) -> None:
    """It would be 05:37 on 1 January 1970, and the load would have nothing, or everything."""
    message = (
        "20261121: may be the date 2026-11-21 or 20261121 milliseconds since 1970; write 2026-11-21 for the date, or "
        "020261121 for the milliseconds"
    )
    with pytest.raises(OptionsError, match=f"^{option} {message}$"):
        parse_time(option, "20261121")
    with pytest.raises(OptionsError, match=message):
        parse_until(" 20261121 ")


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("020261121", 20261121),
        ("20261321", 20261321),
        ("99991231", 99991231),
        ("2026112", 2026112),
        ("2026-11-21", 1_795_219_200_000),
        ("20261121T000000", 1_795_219_200_000),
        ("2004-05-12T08:55:14.166Z", 1_084_352_114_166),
        ("2004-05-12T08:55:14.165001Z", 1_084_352_114_166),
    ],
)
def test_times_are_milliseconds(text: str, millis: int) -> None:
    assert parse_until(text) == AtTimestamp(millis, latest_if_none=True)

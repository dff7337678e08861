"""Test that options have their names of Kafka before and since 4.2 (KIP-1147)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.cli.main import parser_for

FIRST = ("--bootstrap-server", "b:1", "--topic", "t")
PRODUCE, CONSUME = ("produce", *FIRST), ("consume", *FIRST)
PERF_PRODUCE = ("perf", "produce", *FIRST, "--num-records", "1", "--throughput", "-1", "--record-size", "1")
PERF_CONSUME = ("perf", "consume", *FIRST)


def parsed(*words: str) -> dict[str, Any]:
    return vars(parser_for(words[0]).parse_args(words))


@pytest.mark.parametrize(
    ("words", "before", "since"),
    [
        (PRODUCE, ("--producer.config", "f"), ("--command-config", "f")),
        (PRODUCE, ("--producer-property", "a=b"), ("--command-property", "a=b")),
        (PRODUCE, ("--property", "parse.key=true"), ("--reader-property", "parse.key=true")),
        (CONSUME, ("--consumer.config", "f"), ("--command-config", "f")),
        (CONSUME, ("--consumer-property", "a=b"), ("--command-property", "a=b")),
        (CONSUME, ("--property", "print.key=true"), ("--formatter-property", "print.key=true")),
        (PERF_PRODUCE, ("--producer.config", "f"), ("--command-config", "f")),
        (PERF_PRODUCE, ("--producer-props", "a=b"), ("--command-property", "a=b")),
        ((*PERF_CONSUME, "--messages", "1"), ("--consumer.config", "f"), ("--command-config", "f")),
        (PERF_CONSUME, ("--messages", "7"), ("--num-records", "7")),
    ],
)
def test_both_names(words: tuple[str, ...], before: tuple[str, ...], since: tuple[str, ...]) -> None:
    assert parsed(*words, *before) == parsed(*words, *since)

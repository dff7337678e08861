"""Codes of newer brokers."""

from __future__ import annotations

from kafkalog.protocol.errors import ErrorCode


def test_a_code_that_is_not_known_is_an_unknown_error() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR

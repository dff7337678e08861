"""Test the commits of streams whose groups are coordinated by brokers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Self, cast

import pytest

from kafkalog.client.consumer import CommitFailedError, Whitelist
from kafkalog.client.types import ConsumerRecord
from kafkalog.mirror.legacy import streams
from kafkalog.mirror.legacy.mirroring import Mirroring
from kafkalog.mirror.legacy.senders import Senders


class ScriptedConsumer:
    """A consumer whose first commit comes too late; `stop` is set at the third poll.

    Attributes:
        calls: what was called, in order.
    """

    def __init__(self, properties: Mapping[str, str], stop: threading.Event) -> None:
        self.calls: list[str] = []
        self._stop = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.calls.append("close")

    def subscribe(self, **what: Any) -> None:
        """Do nothing."""

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        self.calls.append("poll")
        if self.calls.count("poll") == 3:
            self._stop.set()
        return []

    def commit(self) -> None:
        self.calls.append("commit")
        if self.calls.count("commit") == 1:
            raise CommitFailedError("group g has gone on without this member")


class NoSenders:
    """The producers of a stream that has no records."""

    def flush(self) -> None:
        """Do nothing."""


def test_a_commit_after_the_group_has_gone_on_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    consumer = ScriptedConsumer({}, stop)
    monkeypatch.setattr(streams, "Consumer", lambda properties: consumer)
    mirroring = Mirroring(Whitelist("words"), cast(Senders, NoSenders()), commit_interval=0.0, abort=True)
    with caplog.at_level(logging.WARNING, logger="kafkalog.mirror"):
        streams.Stream({}, mirroring).run(stop, lambda: consumer.calls.append("wait"))
    assert consumer.calls == ["poll", "commit"] * 3 + ["commit", "wait", "close"]
    (said,) = caplog.messages
    assert said == "the positions are not committed: group g has gone on without this member"

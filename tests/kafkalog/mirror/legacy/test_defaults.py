"""Test the defaults with which a mirror loses nothing, and the warning of a file that replaces them."""

from __future__ import annotations

import logging
import threading

import pytest

from kafkalog.client.consumer import Whitelist
from kafkalog.mirror.legacy.defaults import PRODUCER, with_defaults
from kafkalog.mirror.legacy.running import run


def test_a_file_that_keeps_the_defaults_is_not_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"acks": "-1", "max.in.flight.requests.per.connection": "1", "linger.ms": "5"}
    assert with_defaults(PRODUCER, properties) == {**PRODUCER, **properties}
    assert caplog.messages == []


def test_each_file_that_replaces_defaults_gets_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    stopped = threading.Event()
    stopped.set()
    source = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "enable.auto.commit": "true"}
    target = {"bootstrap.servers": "127.0.0.1:1", "acks": "1", "max.block.ms": "1000"}
    with caplog.at_level(logging.WARNING, "kafkalog.mirror"):
        run([source], target, Whitelist("x"), streams=2, commit_interval=60, abort=True, stop=stopped)
    told = [each.partition("the file sets ")[2] for each in caplog.messages if "may be lost" in each]
    assert told == ["enable.auto.commit=true", "acks=1, max.block.ms=1000"]

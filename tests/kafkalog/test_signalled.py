"""Test that an event is set by signals, also by one that comes while the event is in use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkalog.signalled import SignalledEvent


def test_the_handler_sets_the_event() -> None:
    event = SignalledEvent()
    event.handle(15, None)
    assert event.wait(60)


def test_the_handler_sets_no_event_that_is_closed() -> None:
    event = SignalledEvent()
    event.close()
    event.handle(15, None)
    assert not event.is_set()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "made",
    [
        "from kafkalog.cli.shared.interruptible import set_by_signals\nstop = set_by_signals()",
        "from spark_kafkalog.jobs.application import stop_signals\nasked = stop_signals()\nstop = asked.__enter__()",
    ],
)
def test_a_signal_comes_while_the_main_thread_is_within_the_event(made: str) -> None:
    # `_cond` is the lock that `Event.wait` holds at its beginning and at its end.
    script = f"""
import os, signal
{made}
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
print(stop.wait(60))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=True)
    assert done.stdout == b"True\n"

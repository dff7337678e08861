"""Test that signals set an event whatever the main thread does at that moment."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kafkalog.signalled import SignalledEvent

NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)
MADE = {
    "command": "from kafkalog.cli.shared.interruptible import set_by_signals\nstop = set_by_signals()",
    "job": "from spark_kafkalog.jobs.application import stop_signals\nasked = stop_signals()\nstop = asked.__enter__()",
}
# A generator that is left open ends with the interpreter, where Python 3.13 runs no thread that it may wait for.
ENDED = {MADE["command"]: "", MADE["job"]: "asked.__exit__(None, None, None)"}
# `_cond` is the lock that `Event.wait` holds at its beginning and at its end.
WITHIN_THE_EVENT = """
with stop._cond:
    os.kill(os.getpid(), signal.SIGTERM)
print(stop.wait(60))
"""
# Another thread gets the signal, so that it does not interrupt the wait of the main thread.
WAITING_FOR_A_LOCK = """
lock = threading.Lock()
lock.acquire()

def end():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    print(stop.wait(60))
    lock.release()

threading.Thread(target=end).start()
lock.acquire()
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_sets_the_event(number: int) -> None:
    event = SignalledEvent(NUMBERS)
    try:
        assert not event.is_set()
        signal.raise_signal(number)
        assert event.wait(60)
    finally:
        event.close()


def test_other_signals_do_not_set_it() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: came.append(number))
    event = SignalledEvent(NUMBERS[:1])
    try:
        signal.raise_signal(signal.SIGUSR2)
        assert came == [signal.SIGUSR2]
        assert not event.wait(0.1)
    finally:
        event.close()
        signal.signal(signal.SIGUSR2, before)


def test_handlers_and_pipe_come_back() -> None:
    handlers = [signal.getsignal(number) for number in NUMBERS]
    pipe = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(pipe)
    SignalledEvent(NUMBERS).close()
    assert [signal.getsignal(number) for number in NUMBERS] == handlers
    assert signal.set_wakeup_fd(pipe) == pipe


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("doing", [WITHIN_THE_EVENT, WAITING_FOR_A_LOCK], ids=["within the event", "waiting"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_signal_ends_a_program(made: str, doing: str) -> None:
    script = f"import os, signal, threading\n{made}\n{doing}\n{ENDED[made]}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=True)
    assert done.stdout == b"True\n"

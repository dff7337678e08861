"""Tests of signals that arrive just before a wait begins, and of their handlers after a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import call

_WAITS = """
import os, signal, sys
from kafkalog.cli.shared import interruptible

interruptible._wakeup_pipe()
# What the interpreter does in the signal's own handler; Python's is yet to run. The read must not begin to wait.
os.write(interruptible._wakeup[1], bytes([signal.SIGINT]))
real = interruptible.os.read
def read(descriptor, size):
    data = real(descriptor, size)
    if descriptor != 0:
        raise KeyboardInterrupt
    return data
interruptible.os.read = read
try:
    interruptible.read_interruptibly(0, 10)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_command_in_a_process_that_goes_on_puts_the_handlers_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "lines").open("x+") as lines:
        monkeypatch.setattr("sys.stdin", lines)
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        call("produce", "--bootstrap-server", "127.0.0.1:1", "--topic", "words", "--max-block-ms", "50", check=None)
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.usefixtures("processes")
def test_a_signal_just_before_the_wait_ends_it() -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", _WAITS], stdin=reader, capture_output=True, timeout=60, check=True)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"interrupted\n"


@pytest.mark.usefixtures("processes")
def test_what_comes_in_is_read_and_so_is_its_end() -> None:
    script = """
import sys
from kafkalog.cli.shared.interruptible import read_interruptibly
while data := read_interruptibly(0, 3):
    print(data.decode())
"""
    done = subprocess.run([sys.executable, "-c", script], input=b"abcde", capture_output=True, timeout=60, check=True)
    assert done.stdout == b"abc\nde\n"

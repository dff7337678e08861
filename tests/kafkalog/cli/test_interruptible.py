"""Tests of signals that arrive just before a wait begins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("processes")

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


def test_a_signal_just_before_the_wait_ends_it() -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", _WAITS], stdin=reader, capture_output=True, timeout=60, check=True)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"interrupted\n"


def test_what_comes_in_is_read_and_so_is_its_end() -> None:
    script = """
import sys
from kafkalog.cli.shared.interruptible import read_interruptibly
while data := read_interruptibly(0, 3):
    print(data.decode())
"""
    done = subprocess.run([sys.executable, "-c", script], input=b"abcde", capture_output=True, timeout=60, check=True)
    assert done.stdout == b"abc\nde\n"

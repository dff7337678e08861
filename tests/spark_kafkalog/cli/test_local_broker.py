"""Test that the broker of a command ends with it, whatever ends the command."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_kafkalog.cli.local_broker import LocalBroker
from tests.support.command import start
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("processes")

COMMAND = """\
import signal, sys
from pathlib import Path
from spark_kafkalog.cli.local_broker import LocalBroker
place = Path(sys.argv[1])
with LocalBroker(place / "log", place / "broker.out") as broker:
    print(broker.bootstrap, flush=True)
    signal.pause()
"""


def is_gone(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=20).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        # Such as a reset: it is about to be gone.
        return False
    return False


def test_a_start_that_is_interrupted_leaves_no_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    broker = LocalBroker(tmp_path / "log", tmp_path / "broker.out")
    monkeypatch.setattr("spark_kafkalog.cli.local_broker.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    process = broker._process
    assert process is not None
    try:
        assert process.returncode == -signal.SIGKILL
    finally:
        broker.kill()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_the_broker_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", COMMAND, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: is_gone(address), "the broker has ended")


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_broker_ends_with_a_quickstart_whose_terminal_is_closed(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "text").write_text("a line\n")
    # With `nohup` the tests ignore SIGHUP, and the command would inherit that.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = start("quickstart", str(tmp_path / "text"), "--directory", str(tmp_path / "data"))
    finally:
        signal.signal(number, before)
    try:
        assert process.stdout is not None
        told = next(line for line in process.stdout if line.startswith(b"broker "))
        address = told.split()[-1].decode()
        process.send_signal(number)
        process.communicate(timeout=120)
        assert process.returncode == 128 + number
        assert is_gone(address)
    finally:
        process.kill()
        process.communicate()

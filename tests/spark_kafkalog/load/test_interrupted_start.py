"""Test that a load that is interrupted while Spark starts leaves no JVM behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, produce

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")


def session_processes(session: int) -> dict[int, bytes]:
    """Of a session (`setsid`): command lines by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state, _, _, of_session, *_ = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if state != "Z" and int(of_session) == session:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return found


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_jvm_is_left(tmp_path: Path, broker: KafkalogBroker, number: signal.Signals) -> None:
    topic = f"interrupted-{number}"
    with broker.connect() as sock:
        create_topic(sock, topic, 1)
        produce(sock, topic, batch([b"x"]))
    words = ["load", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--to", str(tmp_path / "loads")]
    load = subprocess.Popen(
        [sys.executable, "-m", "kafkalog.cli.main", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: any(b"SparkSubmit" in line for line in session_processes(load.pid).values()), "Spark's JVM")
        # As a terminal does.
        os.killpg(load.pid, number)
        assert load.wait(120) in (128 + number, -number)
        wait_until(lambda: not session_processes(load.pid), "nothing of it is left")
    finally:
        for process_id in session_processes(load.pid):
            os.kill(process_id, signal.SIGKILL)
        load.wait()

"""Test that a broker that cannot start says why and what to do, without a traceback."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.storage.names import CLEAN_SHUTDOWN
from tests.support.command import ended_by_sigterm
from tests.support.command import start as started
from tests.support.kafkalog_broker import KafkalogBroker

pytestmark = pytest.mark.usefixtures("processes")


def start(*overrides: str) -> subprocess.CompletedProcess[str]:
    options = [word for override in overrides for word in ("--override", override)]
    return subprocess.run(
        [sys.executable, "-m", "kafkalog.cli.main", "server", "start", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        done = start(f"listeners={listener}", f"log.dirs={tmp_path}")
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"kafkalog: Socket server failed to bind to {listener}: Address already in use. "
        "Is another broker running there? Stop it, or choose another port in listeners\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_it_serves_though_its_output_cannot_be_written(tmp_path: Path) -> None:
    words = ["server", "start", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", f"log.dirs={tmp_path}"]
    with Path("/dev/full").open("wb") as full:
        process = started(*words, stdout=full)
    with ended_by_sigterm(process):
        assert process.stderr is not None
        told = (re.search(rb"is accepting connections on PLAINTEXT://([^:]+):(\d+)", line) for line in process.stderr)
        place = next(filter(None, told), None)
        assert place is not None, "the broker has ended"
        socket.create_connection((place[1].decode(), int(place[2])), timeout=20).close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize(
    ("overrides", "code", "message"),
    [
        (["listeners=PLAINTEXT://nowhere.invalid:0"], 1, "Name an address of this machine in listeners"),
        (
            ["listeners=PLAINTEXT://127.0.0.1:0", "log.dirs={}/file"],
            1,
            "log.dirs: cannot use the directory {}/file: Not a",
        ),
        (["listeners=SSL://127.0.0.1:0"], 1, "Listener SSL: there is no certificate; set"),
        (["num.partitions=four"], 2, "Invalid value four for configuration num.partitions"),
        (["num.partitions"], 2, "--override: expected KEY=VALUE"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, overrides: list[str], code: int, message: str) -> None:
    (tmp_path / "file").write_text("")
    done = start(f"log.dirs={tmp_path}/log", *(override.format(tmp_path) for override in overrides))
    assert done.returncode == code
    assert message.format(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_log_of_every_part_has_the_form_asked_for(tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path, {"kafkalog.log.format": "json"}) as broker:
        printed = broker.output.read_text().splitlines()
    messages = [json.loads(line)["message"] for line in printed if "accepting connections" not in line]
    assert any(message.startswith("There are no logs in ") for message in messages)


def test_warnings_of_libraries_have_that_form_as_well(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    listener, form = "listeners=PLAINTEXT://127.0.0.1:0", "kafkalog.log.format=json"
    connect = [f"zookeeper.connect={address}", "zookeeper.connection.timeout.ms=1000"]
    done = start(listener, form, f"log.dirs={tmp_path}", *connect)
    *logged, reason = done.stderr.splitlines()
    assert (done.returncode, reason[:28]) == (1, "kafkalog: zookeeper.connect:")
    assert any(json.loads(line)["logger"].startswith("kazoo") for line in logged)

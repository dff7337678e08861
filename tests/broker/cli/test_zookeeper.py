"""Test `kafkalog zookeeper start`: the real server serves, stops cleanly, and mistakes are told in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.cli.zookeeper.jars import MissingZooKeeperError, find_jars, find_java
from peers import require
from peers.brokers.zookeeper import Session
from peers.toolchains import java
from tests.support.waiting import wait_until

START = [sys.executable, "-m", "kafkalog.cli.main", "zookeeper", "start"]
READY = "ZooKeeper is accepting connections on "


@contextmanager
def zookeeper(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server; give its process and its address."""
    require(java.missing())
    process = subprocess.Popen([*START, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        yield process, line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def java_of(directory: Path, first: str) -> None:
    """Make a `java` for JAVA_HOME=`directory`/java that serves nobody, and makes the file `directory`/runs."""
    program = directory / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{first}\ntouch {directory}/runs\nwhile :; do sleep 0.05; done\n")
    program.chmod(0o755)


def refused(*words: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [*START, *words], capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.usefixtures("processes")
def test_it_serves_keeps_its_data_and_stops_cleanly(tmp_path: Path) -> None:
    config = tmp_path / "zookeeper.properties"
    config.write_text(f"dataDir={tmp_path}/data\nclientPort=2181\n")
    words = "--config", str(config), "--override", "clientPort=0"
    for made in (True, False):
        with zookeeper(*words) as (process, address):
            session = Session(address)
            assert session.create("/kept", b"data") is made
            session.close()
            process.send_signal(signal.SIGTERM if made else signal.SIGINT)
            assert process.wait(60) == 0


def test_a_second_server_at_a_port_is_refused(processes: None, tmp_path: Path) -> None:
    """Whoever asks there whether it serves would hear from the first one."""
    words = "--override", f"dataDir={tmp_path}/first", "--override", "clientPort=0"
    with zookeeper(*words) as (_, address):
        port = address.rpartition(":")[2]
        second = subprocess.Popen(
            [*START, "--override", f"dataDir={tmp_path}/second", "--override", f"clientPort={port}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        out, told = second.communicate(timeout=120)
        assert (second.returncode, out) == (1, "")
        assert told == f"kafkalog: port {port} cannot be used: Address already in use; choose another clientPort\n"


def test_more_signals_do_not_disturb_its_stop(processes: None, tmp_path: Path) -> None:
    """The server here ends only once it has been asked to, and allowed to."""
    ending, may_end = tmp_path / "ending", tmp_path / "may-end"
    java_of(tmp_path, f"trap 'touch {ending}; while [ ! -e {may_end} ]; do sleep 0.05; done; exit 0' TERM")
    words = "--override", f"dataDir={tmp_path}/data", "--override", "clientPort=0"
    environment = os.environ | {"JAVA_HOME": str(tmp_path / "java")}
    process = subprocess.Popen([*START, *words], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until((tmp_path / "runs").exists, "the server runs")
        process.send_signal(signal.SIGTERM)
        wait_until(ending.exists, "the server was asked to end")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        may_end.touch()
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_the_server_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    with zookeeper("--override", f"dataDir={tmp_path}", "--override", "clientPort=0") as (process, address):
        process.kill()
        process.wait()

        def is_gone() -> bool:
            try:
                Session(address).close()
            except OSError:
                return True
            return False

        wait_until(is_gone, "the server has ended")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--override", "clientPort"], 2, "--override: expected KEY=VALUE"),
        (["--override", "clientPort=many"], 2, "clientPort=many: expected the number of a port"),
        (["--config", "/nowhere"], 2, "Cannot read the configuration file /nowhere"),
        (["--override", "clientPort=0", "--override", "tickTime=x"], 1, "ZooKeeper ended with exit code 2"),
    ],
)
def test_mistakes_are_named(words: list[str], code: int, message: str) -> None:
    require(java.missing())
    found, told = refused(*words)
    assert found == code
    assert message in told


def test_a_java_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingZooKeeperError, match="there is no java in PATH"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(MissingZooKeeperError, match="no java in JAVA_HOME"):
        find_java({"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path)})


def test_an_installation_wins_over_the_jars_of_pyspark(tmp_path: Path) -> None:
    with pytest.raises(MissingZooKeeperError, match=f"ZOOKEEPER_HOME is {tmp_path}, and neither it nor its lib"):
        find_jars({"ZOOKEEPER_HOME": str(tmp_path)})
    (tmp_path / "lib").mkdir()
    jars = [tmp_path / "lib" / "slf4j-api.jar", tmp_path / "lib" / "zookeeper-3.8.4.jar"]
    for jar in jars:
        jar.touch()
    assert find_jars({"ZOOKEEPER_HOME": str(tmp_path)}) == [tmp_path / "conf", *jars]
    assert any(jar.name.startswith("zookeeper-jute") for jar in find_jars({}))

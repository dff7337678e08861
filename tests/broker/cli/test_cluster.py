"""Test `kafkalog cluster`: three brokers on this machine, one killed and started again, and mistakes in one line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.cluster.description import (
    NOT_RUNNING,
    BrokerEntry,
    Description,
    held,
    load,
    read_cut_request,
    remembered_ports,
    write_cut_request,
)
from broker.cli.cluster.start import ending_signals
from broker.cli.cluster.supervisor import ClusterFailedError, Supervisor, broker_settings, choose_ports
from broker.log.directories.log_dir import LogDir
from kafkalog.client.admin import NewTopic
from kafkalog.client.admin.admin import Admin
from kafkalog.client.producer import Producer
from peers import require
from peers.toolchains import java
from tests.support.command import command, lines, run, start
from tests.support.waiting import wait_until

READY = "the cluster is accepting connections on "


@pytest.fixture
def cluster(processes: None, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Run a cluster; give its directory and its bootstrap addresses."""
    require(java.missing())
    directory = tmp_path / "cluster"
    words = command("cluster", "start", "--dir", str(directory), "--base-port", "0")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), line + "".join(each.read_text() for each in directory.glob("*.log"))
        yield directory, line.removeprefix(READY).strip()
        # As a terminal's Ctrl-C: to all processes of the group.
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 0
        for number in (1, 2, 3):
            assert f"broker {number} stopped" in (directory / f"broker-{number}.log").read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("started_by", [signal.SIG_DFL, signal.SIG_IGN], ids=["a terminal", "nohup"])
def test_the_end_of_the_terminal_ends_it_unless_nohup_has_started_it(started_by: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, started_by)
    try:
        assert (signal.SIGHUP in ending_signals()) == (started_by is signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.timeout(300)
def test_a_broker_is_killed_and_comes_back(cluster: tuple[Path, str]) -> None:
    directory, bootstrap = cluster
    where = "--dir", str(directory)
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 3, "all brokers are registered")
        admin.create_topics([NewTopic("words", 3, 3)])
    with Producer({"bootstrap.servers": bootstrap, "acks": "all"}) as producer:
        first = [producer.send("words", b"before", partition=number) for number in range(3)]
        assert [each.result(60).offset for each in first] == [0, 0, 0]
        told = lines(run("cluster", "status", *where))
        assert sum("controller" in line for line in told) == 1
        victim = next(number for number in (1, 2, 3) if not told[number].endswith(", controller"))
        assert lines(run("cluster", "kill", str(victim), "--hard", *where)) == [f"broker {victim} was killed"]
        again = [producer.send("words", b"meanwhile", partition=number) for number in range(3)]
        assert [each.result(60).offset for each in again] == [1, 1, 1]
    assert run("cluster", "kill", str(victim), *where, check=1).stderr.startswith(b"kafkalog: broker")

    def has_lost_one() -> bool:
        shown = lines(run("cluster", "status", *where))
        return "not running" in shown[victim] and sum(line.startswith("words-") for line in shown) == 3

    wait_until(has_lost_one, "the partitions have lost a replica")
    held_by_another = LogDir(directory / f"broker-{victim}")
    told_by = directory / f"broker-{victim}.log"
    refused = run("cluster", "start", str(victim), *where, check=1)
    assert refused.stderr.decode() == f"kafkalog: broker {victim} has ended again; {told_by} says why\n"
    assert "another broker is using this directory" in told_by.read_text()
    held_by_another.unlock()
    assert lines(run("cluster", "start", str(victim), *where))[0].startswith(f"broker {victim} is started")
    assert run("cluster", "start", str(victim), *where, check=1).stderr.endswith(b")\n")
    wait_until(
        lambda: not any(line.startswith("words-") for line in lines(run("cluster", "status", *where))),
        "all replicas are in sync",
    )
    assert run("cluster", "start", *where, check=1).stderr.startswith(b"kafkalog: a cluster is running in ")
    # Whichever broker is asked, the controller tells why the partition has another leader, and its leader who lags.
    told = lines(run("isr", "why", f"words-{victim - 1}", "--bootstrap-server", bootstrap.split(",")[victim - 1]))
    assert sum(": in sync, " in line for line in told) == 2
    assert any("nothing listened at BROKERS://127.0.0.1:" in line for line in told)
    assert any(" has caught up: its log ends at 2" in line for line in told)


@pytest.mark.timeout(300)
def test_a_broker_is_cut_off_and_connected_again(cluster: tuple[Path, str]) -> None:
    directory, bootstrap = cluster
    where = "--dir", str(directory)
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        wait_until(lambda: len(admin.describe_cluster().brokers) == 3, "all brokers are registered")
        admin.create_topics([NewTopic("words", 3, 3)])
        boss = admin.describe_cluster().controller_id
        victim = next(number for number in (1, 2, 3) if number != boss)

        def leaders() -> set[int]:
            found = admin.describe_topics(["words"])["words"].partitions.values()
            return {each.leader for each in found}

        wait_until(lambda: leaders() == {1, 2, 3}, "each broker leads a partition")
        assert lines(run("cluster", "partition", str(victim), *where)) == [
            f"broker {victim} is cut off from ZooKeeper and the other brokers"
        ]
        entry = load(directory).broker(victim)
        assert (entry.cut, entry.pid) != ("", NOT_RUNNING)
        rest = ",".join(f"127.0.0.1:{each.port}" for each in load(directory).brokers if each.broker_id != victim)
        with Producer({"bootstrap.servers": rest, "acks": "all"}) as producer:
            sent = [producer.send("words", b"meanwhile", partition=number) for number in range(3)]
            assert [each.result(120).offset for each in sent] == [0, 0, 0]
        wait_until(lambda: victim not in leaders(), "the others lead")

        def of_victim() -> str:
            (found,) = (
                each for each in lines(run("cluster", "status", *where)) if each.startswith(f"broker {victim} ")
            )
            return found

        wait_until(lambda: "leads 0 partitions, in sync with 0 of 3" in of_victim(), "status shows the new leaders")
        assert any("cut off from ZooKeeper and the other" in line for line in lines(run("cluster", "status", *where)))
        assert lines(run("cluster", "heal", str(victim), *where)) == [f"broker {victim} is connected again"]
        assert run("cluster", "heal", str(victim), *where, check=1).stderr.endswith(b" is not cut off\n")
        wait_until(
            lambda: all(len(each.isr) == 3 for each in admin.describe_topics(["words"])["words"].partitions.values()),
            "all replicas are in sync",
        )
    told = lines(run("cluster", "partition", str(victim), "--from", "brokers", "--for", "0.1", *where))
    assert told == [f"broker {victim} is cut off from the other brokers for 0.1 s"]
    wait_until(lambda: not load(directory).broker(victim).cut, "it is connected again by itself")


@pytest.fixture
def silent_java(processes: None, tmp_path: Path) -> str:
    """Make a `java` that never serves anybody; return the value of JAVA_HOME."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    return str(tmp_path / "java")


def test_there_is_one_cluster_in_a_directory_also_while_it_starts(silent_java: str, tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    words = "cluster", "start", "--dir", str(directory), "--base-port", "0"
    process = start(*words, environment={"JAVA_HOME": silent_java})
    try:
        wait_until((directory / "zookeeper.log").exists, "ZooKeeper is started")
        second = run(*words, check=1).stderr.decode()
        assert second == f"kafkalog: a cluster is running in {directory} (process {process.pid})\n"
        wait_until((directory / "cluster.json").exists, "other commands know the cluster")
        assert b"broker 1 is not running" in run("cluster", "kill", "1", *words[2:4], check=1).stderr
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    with held(directory):
        pass


def test_a_process_that_never_serves_is_told(silent_java: str, tmp_path: Path) -> None:
    zookeeper = {"clientPort": str(*choose_ports(0, 1))}
    program = f"{silent_java}/bin/java"
    supervisor = Supervisor(tmp_path, [1], program, [], zookeeper, {}, print, ready_s=0.2)
    try:
        with pytest.raises(ClusterFailedError, match=r"^ZooKeeper accepts no connections within 0\.2 s; .*r\.log"):
            supervisor.start(os.getpid())
    finally:
        supervisor.stop()


def test_another_program_at_the_port_of_a_broker_is_not_taken_for_it(
    processes: None, silent_java: str, tmp_path: Path
) -> None:
    zookeeper = {"clientPort": str(*choose_ports(0, 1))}
    program = f"{silent_java}/bin/java"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        supervisor = Supervisor(tmp_path, [port], program, [], zookeeper, {}, print, ready_s=0.2)
        try:
            (entry,) = supervisor.description.brokers
            supervisor._launch(entry)
            with pytest.raises(ClusterFailedError, match=r"^broker 1 accepts no connections within 0\.2 s; .*r-1\.log"):
                supervisor._wait_for_broker(entry)
        finally:
            supervisor.stop()


def test_a_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterFailedError, match=f"port {port} cannot be used: .* by --base-port"):
            choose_ports(port, 1)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("start", "--brokers", "0"), 2, "--brokers 0: expected 1 to 20"),
        (("start", "--base-port", "65535"), 2, "--base-port 65535: expected a port that leaves room"),
        (("start", "--override", "broker"), 2, "--override: expected KEY=VALUE"),
        (("start", "2"), 1, "there is no cluster in "),
        (("kill", "2"), 1, "there is no cluster in "),
        (("partition", "2"), 1, "there is no cluster in "),
        (("heal", "2"), 1, "there is no cluster in "),
        (("status",), 1, "there is no cluster in "),
    ],
)
def test_mistakes_are_told_in_one_line(words: tuple[str, ...], code: int, message: str, tmp_path: Path) -> None:
    done = run("cluster", *words, "--dir", str(tmp_path / "none"), check=code)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"kafkalog: {message}")


@pytest.mark.usefixtures("processes")
def test_a_cluster_that_is_gone_is_told(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    description = Description(ended.pid, "127.0.0.1:1", [BrokerEntry(1, 1, ended.pid)])
    description.save(tmp_path)
    done = run("cluster", "status", "--dir", str(tmp_path), check=1)
    assert b"is not running: start it with" in done.stderr
    description.supervisor = os.getpid()
    description.save(tmp_path)
    assert b"the cluster has no broker 2" in run("cluster", "kill", "2", "--dir", str(tmp_path), check=1).stderr
    assert b"broker 1 is not running" in run("cluster", "kill", "1", "--dir", str(tmp_path), check=1).stderr


def test_settings_fit_the_number_of_brokers(tmp_path: Path) -> None:
    one = broker_settings(BrokerEntry(1, 9092), "127.0.0.1:2181", tmp_path, 1, 1001)
    five = broker_settings(BrokerEntry(5, 9096, link_port=5000), "127.0.0.1:2181", tmp_path, 5, 1005)
    assert (one["default.replication.factor"], one["min.insync.replicas"]) == ("1", "1")
    assert (five["offsets.topic.replication.factor"], five["transaction.state.log.min.isr"]) == ("3", "2")
    assert five["listeners"] == "PLAINTEXT://127.0.0.1:9096,BROKERS://127.0.0.1:1005"
    assert five["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9096,BROKERS://127.0.0.1:5000"
    base, *_ = choose_ports(0, 1)
    assert choose_ports(base, 1) == [base]
    assert len(set(choose_ports(0, 3))) == 3


def test_requests_to_cut_a_broker_off(tmp_path: Path) -> None:
    assert read_cut_request(tmp_path, 1) is None
    write_cut_request(tmp_path, 1, "zookeeper", 2.5)
    assert read_cut_request(tmp_path, 2) is None
    assert read_cut_request(tmp_path, 1) == ("zookeeper", 2.5)
    assert read_cut_request(tmp_path, 1) is None
    for damaged in ("", "[]", '["moon", 1]', '["all", "x"]', "7", '[["all"], 1]'):
        (tmp_path / "cut-1").write_text(damaged)
        assert read_cut_request(tmp_path, 1) is None, damaged
        assert not (tmp_path / "cut-1").exists()


def test_brokers_that_are_cut_off_are_not_asked_for_the_state() -> None:
    one, two, three = BrokerEntry(1, 9092), BrokerEntry(2, 9093, cut="brokers"), BrokerEntry(3, 9094)
    description = Description(1, "127.0.0.1:1", [one, two, three])
    assert description.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert description.informed == "127.0.0.1:9092,127.0.0.1:9094"
    one.cut = three.cut = "all"
    assert description.informed == description.bootstrap


def test_brokers_get_the_ports_of_the_last_time(tmp_path: Path) -> None:
    assert remembered_ports(tmp_path) == {}
    Description(1, "127.0.0.1:1", [BrokerEntry(1, 9092, link_port=4000)]).save(tmp_path)
    assert remembered_ports(tmp_path) == {1: 4000}
    (tmp_path / "cluster.json").write_text("{")
    assert remembered_ports(tmp_path) == {}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    assert b"is no number of seconds above 0" in run("cluster", "partition", "1", "--for", seconds, check=2).stderr

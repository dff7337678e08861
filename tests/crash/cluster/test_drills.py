"""Drills: whatever happens to brokers, their connections, ZooKeeper and disks, no acknowledged record is lost.

Each drill has a topic of its own, and leaves the cluster whole. A producer with acks=all and idempotence, and a
consumer, run meanwhile. In the end each record is there once, in order and at the offset that the producer was told.
The replicas have the same bytes, and nothing has changed that the consumer had read.
"""

from __future__ import annotations

import os
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from peers import require
from peers.toolchains import java
from tests.crash.cluster.drilled import DrilledCluster, drilled_cluster
from tests.crash.cluster.load import Load, under_load
from tests.crash.cluster.writers import Delivered, KafkalogWriter, LibrdkafkaWriter, Writer
from tests.support.broker_cluster import IDS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(900)]

ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
KILLS = 24
MISHAPS = 12
WRITERS = (LibrdkafkaWriter, KafkalogWriter)
SOAK_KILLS = int(os.environ.get("KAFKALOG_SOAK_KILLS", "504"))
SOAK_SEED = int(os.environ.get("KAFKALOG_SOAK_SEED", "100"))
"""The number of times that `make test-soak` kills brokers, and the seed of their order."""


@pytest.fixture(scope="module")
def running(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrilledCluster]:
    require(java.missing())
    with drilled_cluster(tmp_path_factory.mktemp("drills")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: DrilledCluster) -> DrilledCluster:
    """Return the cluster when it is whole."""
    running.wait_alive()
    return running


def new_topic(cluster: DrilledCluster, assignment: list[list[int]] = ASSIGNMENT) -> str:
    topic = f"drill-{uuid.uuid4().hex[:8]}"
    cluster.create(topic, assignment)
    return topic


def who(cluster: DrilledCluster, role: str) -> int:
    """Return the controller, or another broker."""
    boss = cluster.controller()
    assert boss in IDS
    return boss if role == "controller" else next(number for number in IDS if number != boss)


@pytest.mark.parametrize("role", ["leader", pytest.param("controller", marks=pytest.mark.exhaustive)])
def test_a_broker_is_paused_for_longer_than_its_session(cluster: DrilledCluster, role: str) -> None:
    topic, victim = new_topic(cluster), who(cluster, role)
    with under_load(cluster, topic, 3) as load:
        with cluster.paused(victim):
            cluster.wait_led_by_others(topic, victim)
            load.wait_acknowledged()
        cluster.wait_whole(topic)


@pytest.mark.exhaustive
@pytest.mark.parametrize("role", ["leader", "controller"])
def test_a_broker_is_cut_off_from_zookeeper(cluster: DrilledCluster, role: str) -> None:
    topic, victim = new_topic(cluster), who(cluster, role)
    with under_load(cluster, topic, 3) as load:
        with cluster.cut(victim, "zookeeper"):
            cluster.wait_led_by_others(topic, victim)
            load.wait_acknowledged()
        cluster.wait_whole(topic)


@pytest.mark.exhaustive
@pytest.mark.parametrize("role", ["leader", "controller"])
def test_a_broker_is_cut_off_from_everybody(cluster: DrilledCluster, role: str) -> None:
    topic, victim = new_topic(cluster), who(cluster, role)
    with under_load(cluster, topic, 3) as load:
        with cluster.cut(victim, "zookeeper", "brokers"):
            cluster.wait_led_by_others(topic, victim)
            load.wait_acknowledged()
        cluster.wait_whole(topic)


@pytest.mark.exhaustive
def test_a_broker_is_cut_off_from_the_others_alone(cluster: DrilledCluster) -> None:
    """It goes on to lead, for ZooKeeper knows it, and nothing that it has alone is acknowledged."""
    topic, victim = new_topic(cluster), who(cluster, "leader")
    with under_load(cluster, topic, 3) as load:
        with cluster.cut(victim, "brokers"):
            # The others go on without it as soon as their leaders have taken it out of the ISR.
            load.wait_acknowledged(*(index for index, replicas in enumerate(ASSIGNMENT) if replicas[0] != victim))
            rest = next(number for number in IDS if number != victim)
            assert cluster.leader(topic, victim - 1, rest) == victim
        cluster.wait_whole(topic)


@pytest.mark.exhaustive
def test_zookeeper_is_away_for_less_and_for_more_than_a_session(cluster: DrilledCluster) -> None:
    topic = new_topic(cluster)
    with under_load(cluster, topic, 3) as load:
        cluster.stop_zookeeper()
        load.wait_acknowledged(more=5)
        cluster.start_zookeeper()
        load.wait_acknowledged()
        seen = {number: broker.logged().count("gives up its roles") for number, broker in cluster.brokers.items()}
        cluster.stop_zookeeper()
        for number, broker in cluster.brokers.items():
            wait_until(
                partial(_said_again, broker.logged, seen[number]), f"broker {number} gives up its roles", deadline_s=60
            )
        cluster.start_zookeeper()
        cluster.wait_alive()
        cluster.wait_whole(topic)


def _said_again(logged: Callable[[], str], before: int) -> bool:
    return logged().count("gives up its roles") > before


@pytest.mark.exhaustive
def test_brokers_restart_one_after_the_other_under_a_reassignment(cluster: DrilledCluster) -> None:
    topic = new_topic(cluster, [[1, 2], [2, 3], [3, 1]])
    moved = {0: (3, 2), 1: (1, 3), 2: (2, 1)}
    with under_load(cluster, topic, 3) as load, Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.replicas.alter_partition_reassignments(
            {TopicPartition(topic, index): replicas for index, replicas in moved.items()}
        )
        for number in IDS:
            cluster.stop(number)
            cluster.start(number)
            cluster.wait_alive()
            cluster.wait_whole(topic)
            load.wait_acknowledged()
        wait_until(lambda: not admin.replicas.list_partition_reassignments(), "the reassignments end")
        found = admin.describe_topics([topic])[topic].partitions
        assert {index: each.replicas for index, each in found.items()} == moved


@pytest.mark.exhaustive
def test_a_log_directory_fails(tmp_path: Path) -> None:
    """The files of one directory of a broker are gone, so that no new segment can be made there; it has another one."""
    require(java.missing())
    with drilled_cluster(tmp_path, {"log.segment.bytes": "16384"}) as cluster:
        victim = who(cluster, "leader")
        broker = cluster.brokers[victim]
        second = broker.directory / "second"
        cluster.stop(victim)
        broker.overrides["log.dirs"] = f"{broker.log_dir},{second}"
        cluster.start(victim)
        cluster.wait_alive()
        topic = new_topic(cluster, ASSIGNMENT * 2)
        cluster.elect_preferred(topic)
        lost = {index for index in range(6) if (second / f"{topic}-{index}").exists()}
        assert 0 < len(lost) < 6, "both directories have partitions"
        with under_load(cluster, topic, 6) as load:
            away = second.rename(broker.directory / "away")
            broker.wait_logged("Stopping serving logs in dir .*second")
            rest = next(number for number in IDS if number != victim)
            wait_until(
                lambda: all(cluster.leader(topic, index, rest) not in (-1, victim) for index in lost),
                "others lead them",
            )
            load.wait_acknowledged()
            assert broker.running
            # The disk is replaced by an empty one.
            cluster.stop(victim)
            shutil.rmtree(away)
            cluster.start(victim)
            cluster.wait_alive()
            cluster.wait_whole(topic)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "writer"), list(enumerate(WRITERS)))
def test_brokers_are_killed_again_and_again(
    cluster: DrilledCluster, seed: int, writer: Callable[[str, Delivered], Writer]
) -> None:
    _kill_again_and_again(cluster, seed, KILLS, writer)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_brokers_are_killed_hundreds_of_times(cluster: DrilledCluster) -> None:
    # Each topic is checked before the next one begins.
    for seed in range(SOAK_SEED, SOAK_SEED + SOAK_KILLS // KILLS):
        _kill_again_and_again(cluster, seed, KILLS, WRITERS[seed % len(WRITERS)])
        # Shown where the test fails, and by `-s`.
        print(f"seed {seed}: {KILLS} kills", flush=True)


def _kill_again_and_again(
    cluster: DrilledCluster, seed: int, kills: int, writer: Callable[[str, Delivered], Writer]
) -> None:
    """Kill brokers under load until so many were killed; then check the topic."""
    chance, topic, killed = random.Random(seed), new_topic(cluster), 0
    with under_load(cluster, topic, 3, writer) as load:
        while killed < kills:
            # Mostly one of them, at times two or all of them at once.
            for number in chance.sample(IDS, chance.choices([1, 2, 3], [8, 3, 1])[0]):
                cluster.kill(number)
                killed += 1
            if chance.random() < 0.5:
                _go_on(load, chance)
            for number in IDS:
                if not cluster.brokers[number].running:
                    cluster.start(number)
                    if chance.random() < 0.3:
                        _go_on(load, chance)
            if chance.random() < 0.5:
                cluster.wait_alive()
                load.wait_acknowledged()
        cluster.wait_alive()
        cluster.wait_whole(topic)


def _go_on(load: Load, chance: random.Random) -> None:
    """Let some time go by, which is not what the test waits for."""
    time.sleep(chance.random())


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_everything_happens_at_once(cluster: DrilledCluster, seed: int) -> None:
    """Brokers are paused, cut off, killed and stopped, at times two of them together, and ZooKeeper is killed."""
    chance, topic = random.Random(1000 + seed), new_topic(cluster)
    with under_load(cluster, topic, 3, WRITERS[seed % len(WRITERS)]) as load:
        for _ in range(MISHAPS):
            with ExitStack() as mishaps:
                for number in chance.sample(IDS, chance.choices([1, 2], [3, 1])[0]):
                    _mishap(cluster, number, chance, mishaps)
                if chance.random() < 0.2:
                    # It is the first to come back, because no broker starts without it.
                    cluster.stop_zookeeper()
                    mishaps.callback(cluster.start_zookeeper)
                # Shorter and longer than sessions and leases.
                time.sleep(chance.choice([0.5, 2.0, 5.0, 7.0]) * chance.random())
            if chance.random() < 0.5:
                cluster.wait_alive()
                load.wait_acknowledged()
        cluster.wait_alive()
        cluster.wait_whole(topic)


def _mishap(cluster: DrilledCluster, number: int, chance: random.Random, mishaps: ExitStack) -> None:
    """Let something happen to a broker, and have it end with `mishaps`."""
    match chance.choice(["pause", "zookeeper", "brokers", "all", "kill", "stop"]):
        case "pause":
            mishaps.enter_context(cluster.paused(number))
        case "kill":
            cluster.kill(number)
            mishaps.callback(cluster.start, number)
        case "stop":
            cluster.stop(number)
            mishaps.callback(cluster.start, number)
        case "all":
            mishaps.enter_context(cluster.cut(number, "zookeeper", "brokers"))
        case kind:
            mishaps.enter_context(cluster.cut(number, kind))

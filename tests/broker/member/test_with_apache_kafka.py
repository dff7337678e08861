"""Members beside brokers of Apache Kafka, one of which is the controller.

Each test leaves the cluster whole. Kafka's own tools are the judges where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import KafkaTools
from tests.broker.member.mixed_cluster import AS_2_8, AS_3_9, OURS, MixedCluster, Writer, mixed_cluster, mixes
from tests.support.broker_cluster import IDS
from tests.support.command import call
from tests.support.waiting import wait_until
from tests.support.wire import exchange

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PERF = "org.apache.kafka.tools.ProducerPerformance"
OURS_FIRST, THEIRS_FIRST = [3, 1, 2], [1, 3, 2]
PAUSE_S = 0.002


@pytest.fixture(scope="module", params=mixes(AS_2_8, AS_3_9))
def cluster(
    request: pytest.FixtureRequest, foreign_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    require(kafka.missing(request.param.release))
    with mixed_cluster(tmp_path_factory.mktemp("cluster"), request.param) as running:
        yield running


@pytest.fixture(scope="module")
def tools(foreign_programs: None) -> Iterator[KafkaTools]:
    with KafkaTools(kafka.KAFKA_3) as running:
        yield running


@contextmanager
def writing(cluster: MixedCluster, topic: str, partitions: int) -> Iterator[Writer]:
    """Produce all the time, with idempotence, from the beginning of the block to its end."""
    writer, end = cluster.writer(**{"enable.idempotence": "true"}), Event()

    def work() -> None:
        number = 0
        while not end.is_set():
            for index in range(partitions):
                writer.send(topic, [b"%d %d" % (index, number)], index)
            number += 1
            writer.poll(PAUSE_S)

    thread = Thread(target=work)
    thread.start()
    try:
        yield writer
    finally:
        end.set()
        thread.join()
    writer.flush()


def check(cluster: MixedCluster, topic: str, partitions: int, writer: Writer) -> None:
    """Check that all replicas have the same bytes, and that every acknowledged record is there once and in order."""
    for index in range(partitions):
        cluster.wait_isr(topic, IDS, index)
        cluster.wait_equal(topic, index)
        acknowledged = [value for value in writer.acknowledged if value.startswith(b"%d " % index)]
        assert len(acknowledged) > 100, "there was no load"
        assert cluster.read(topic, index) == sorted(acknowledged, key=lambda value: int(value.split()[1]))


def acknowledged_more(writer: Writer, index: int) -> None:
    """Wait until another record of a partition is acknowledged, whoever leads it."""
    before = len(writer.acknowledged)
    prefix = b"%d " % index
    wait_until(
        lambda: any(value.startswith(prefix) for value in writer.acknowledged[before:]),
        f"records of partition {index} are acknowledged",
    )


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_what_kafkas_tools_produce_is_on_all_replicas(cluster: MixedCluster, tools: KafkaTools, codec: str) -> None:
    topic = f"perf-{codec}"
    cluster.create(topic, [OURS_FIRST, THEIRS_FIRST, [2, 3, 1]], {"segment.bytes": "300000"})
    servers = ",".join(map(cluster.address, IDS))
    tools.run(
        PERF, "--topic", topic, "--num-records", "30000", "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={servers}", "acks=all", f"compression.type={codec}",
    )  # fmt: skip
    for index in range(3):
        cluster.wait_equal(topic, index)
    assert sum(len(cluster.read(topic, index)) for index in range(3)) == 30_000


def test_kafkas_tool_describes_the_cluster_by_our_answers(cluster: MixedCluster) -> None:
    cluster.create("described", [OURS_FIRST, THEIRS_FIRST, [2, 3, 1]])
    words = ["--bootstrap-server", cluster.address(OURS), "--describe", "--topic", "described"]
    told = kafka.run_java_tool(TOPICS, words, kafka.KAFKA_3, timeout_s=120)
    assert re.findall(r"Leader: (\d).*Isr: ([\d,]+)", told) == [("3", "3,1,2"), ("1", "1,3,2"), ("2", "2,3,1")]


def test_kafkas_controller_does_not_tell_why_a_partition_changed(cluster: MixedCluster) -> None:
    cluster.create("why", [OURS_FIRST])
    told = call("isr", "why", "why-0", "--bootstrap-server", cluster.address(OURS), check=1).err
    assert "the controller, does not tell why partitions change: it is not a broker of kafkalog" in told


def test_a_role_that_was_lost_is_asked_for_at_kafkas_controller(cluster: MixedCluster) -> None:
    cluster.create("lost", [OURS_FIRST])
    writer = cluster.writer()
    writer.send("lost", [b"before"])
    writer.flush()
    # The broker gives up a role that the controller believes it has.
    lose_role(cluster, "lost")
    cluster.ours.wait_logged("The controller is asked for the roles of this broker. lost-0: it is assigned here")
    writer.send("lost", [b"after"])
    writer.flush()
    cluster.wait_isr("lost", IDS)
    cluster.wait_equal("lost")
    assert cluster.read("lost") == [b"before", b"after"]


def lose_role(cluster: MixedCluster, topic: str) -> None:
    """Send our broker a StopReplica of the present controller's epoch, which is found by trying."""
    stops = StopReplicaTopicState(
        topic_name=topic, partition_states=[StopReplicaPartitionState(partition_index=0, leader_epoch=-1)]
    )
    with cluster.ours.connect() as connection:
        for epoch in range(1, 20):
            request = StopReplicaRequest(controller_id=1, controller_epoch=epoch, topic_states=[stops])
            answer: StopReplicaResponse = exchange(connection, request, 3)
            if answer.error_code != ErrorCode.STALE_CONTROLLER_EPOCH:
                assert answer.error_code == answer.partition_errors[0].error_code == 0
                return
    raise AssertionError("no epoch is that of the controller")


def test_ours_stops_in_order_and_comes_back(cluster: MixedCluster) -> None:
    cluster.create("stopped", [OURS_FIRST, THEIRS_FIRST])
    with writing(cluster, "stopped", 2) as writer:
        acknowledged_more(writer, 0)
        assert cluster.ours.stop() == 0
        assert cluster.partition("stopped", 0).leader_id in (1, 2), "the controller had moved the leadership"
        acknowledged_more(writer, 0)
        cluster.ours.start()
        cluster.wait_isr("stopped", IDS, 0)
        cluster.elect_preferred("stopped")
        cluster.wait_leader("stopped", OURS, 0)
        acknowledged_more(writer, 0)
    check(cluster, "stopped", 2, writer)


def test_ours_is_killed_and_comes_back(cluster: MixedCluster) -> None:
    cluster.create("killed", [OURS_FIRST, THEIRS_FIRST], {"min.insync.replicas": "2"})
    with writing(cluster, "killed", 2) as writer:
        for _ in range(2):
            acknowledged_more(writer, 0)
            cluster.ours.kill()
            # As follower and as leader: its session expires, or a new registration takes its place.
            cluster.ours.start()
            cluster.wait_isr("killed", IDS, 0)
            cluster.elect_preferred("killed")
            cluster.wait_leader("killed", OURS, 0)
        acknowledged_more(writer, 0)
    check(cluster, "killed", 2, writer)


def test_the_controller_is_killed_and_comes_back(cluster: MixedCluster) -> None:
    cluster.create("survives", [OURS_FIRST, THEIRS_FIRST], {"min.insync.replicas": "2"})
    with writing(cluster, "survives", 2) as writer:
        acknowledged_more(writer, 0)
        victim = cluster.metadata().controller_id
        cluster.theirs[victim].kill()
        # It may be a broker of ours.
        wait_until(lambda: cluster.metadata(OURS).controller_id not in (victim, -1), "there is another controller")
        acknowledged_more(writer, 0)
        acknowledged_more(writer, 1)
        cluster.theirs[victim].restart()
        cluster.wait_alive(IDS)
    check(cluster, "survives", 2, writer)


def test_a_topic_is_deleted_everywhere(cluster: MixedCluster) -> None:
    cluster.create("deleted", [OURS_FIRST, THEIRS_FIRST])
    writer = cluster.writer()
    writer.send("deleted", [b"x"] * 10)
    writer.flush()
    cluster.delete("deleted")
    wait_until(lambda: not list(cluster.log_dir(OURS).glob("deleted-[01]")), "the logs are gone")
    wait_until(lambda: not cluster.partitions("deleted", OURS), "the topic is not in the metadata any more")

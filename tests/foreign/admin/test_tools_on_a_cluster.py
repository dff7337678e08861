"""Apache Kafka's own tools on a cluster of three of our brokers: what they print, and what they change.

Most are those of Kafka 3.9. Those of 2.8 can write to ZooKeeper, too.
"""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import CONFIGS, GROUPS, KafkaTools
from tests.crash.cluster.drilled import drilled_cluster
from tests.foreign.admin.judge import TOPICS, Judge, file, moves, part
from tests.support.broker_cluster import IDS
from tests.support.waiting import wait_until
from tests.support.wire import batch, exchange, produce_request

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(600)]

_PACKAGE = "org.apache.kafka.tools"
TRANSACTIONS = f"{_PACKAGE}.TransactionsCommand"
LOG_DIRS = f"{_PACKAGE}.LogDirsCommand"
DELETE_RECORDS = f"{_PACKAGE}.DeleteRecordsCommand"
REASSIGN = f"{_PACKAGE}.reassign.ReassignPartitionsCommand"
ELECT = f"{_PACKAGE}.LeaderElectionCommand"
BY_ZOOKEEPER = {
    "topics": "kafka.admin.TopicCommand",
    "reassign": "kafka.admin.ReassignPartitionsCommand",
    "elect": "kafka.admin.PreferredReplicaLeaderElectionCommand",
    "configs": CONFIGS,
}
"""Tools of Kafka 2.8."""
VERSIONS = "kafka.admin.BrokerApiVersionsCommand"

ALL_REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
"""Each broker leads one partition."""
NO_OFFSET = -1001


@pytest.fixture(scope="module")
def judge(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    require(kafka.missing(kafka.KAFKA_3))
    with drilled_cluster(tmp_path_factory.mktemp("judged")) as cluster, KafkaTools(kafka.KAFKA_3) as tools:
        yield Judge(cluster, tools)


def test_all_brokers_are_asked_for_their_versions(judge: Judge) -> None:
    lines = judge.run(VERSIONS)
    brokers = [part(r"^(\S+) \(id: \d rack: null\) -> \($", line) for line in lines if line[0] not in "\t)"]
    assert sorted(brokers) == sorted(judge.cluster.bootstrap.split(","))
    assert len([line for line in lines if re.fullmatch(r"\tProduce\(0\): 0 to \d+ \[usable: \d+\],", line)]) == len(IDS)


def test_topics(judge: Judge) -> None:
    topic = judge.topic(ALL_REPLICAS[:2])
    assert judge.replicas(topic) == ALL_REPLICAS[:2]
    judge.run(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    judge.cluster.wait_whole(topic)
    head, *rows = judge.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 3\t" in head
    assert [int(part(r"Leader: (\d)", row)) for row in rows] == judge.leaders(topic)
    assert topic in judge.run(TOPICS, "--list")
    judge.run(TOPICS, "--delete", "--topic", topic)
    for broker in IDS:
        wait_until(partial(is_unknown, judge, broker, topic), f"{broker} knows no {topic}")
        wait_until(partial(has_no_replica, judge, broker, topic, range(3)), f"{broker} has nothing of {topic}")


def is_unknown(judge: Judge, broker: int, topic: str) -> bool:
    return not judge.cluster.partitions(topic, broker)


def has_no_replica(judge: Judge, broker: int, topic: str, partitions: Iterable[int]) -> bool:
    """Return whether a broker has no directory of these partitions."""
    return not any(path.exists() for index in partitions for path in judge.cluster.replicas(broker, topic, index))


def refusing(judge: Judge, topic: str) -> set[int]:
    """Return the partitions whose leaders refuse a record of 1,000 bytes as too large."""
    found = [judge.write(topic, index, [bytes(1000)]) for index in range(3)]
    assert all(codes in ([None], [ErrorCode.MESSAGE_TOO_LARGE]) for codes in found), found
    return {index for index, codes in enumerate(found) if codes != [None]}


def test_configurations_of_topics(judge: Judge) -> None:
    topic = judge.topic(ALL_REPLICAS)
    before = judge.configs("--topic", topic)
    wanted = "max.message.bytes=500,cleanup.policy=[compact,delete]"
    alter = ("--alter", "--topic", topic)
    assert judge.run(CONFIGS, *alter, "--add-config", wanted) == [f"Completed updating config for topic {topic}."]
    changed = {"max.message.bytes": "500", "cleanup.policy": "compact,delete"}
    wait_until(lambda: judge.configs("--topic", topic) == before | changed, "the configuration is described")
    wait_until(lambda: refusing(judge, topic) == {0, 1, 2}, "every leader has the configuration")
    judge.fail(CONFIGS, *alter, "--add-config", "retention.ms=often")
    judge.run(CONFIGS, *alter, "--delete-config", "max.message.bytes,cleanup.policy")
    wait_until(lambda: judge.configs("--topic", topic) == before, "the configuration of before is described")
    wait_until(lambda: refusing(judge, topic) == set(), "every leader has the configuration of before")


def test_configurations_of_brokers(judge: Judge) -> None:
    topic = judge.topic(ALL_REPLICAS)
    limit = ("--add-config", "message.max.bytes=500")
    assert judge.run(CONFIGS, "--alter", "--broker", "2", *limit) == ["Completed updating config for broker 2."]
    wait_until(lambda: refusing(judge, topic) == {1}, "broker 2 has the configuration")
    assert judge.configs("--broker", "2") == {"message.max.bytes": "500"}
    assert judge.configs("--broker", "1") == {}
    judge.run(CONFIGS, "--alter", "--broker-defaults", *limit)
    wait_until(lambda: refusing(judge, topic) == {0, 1, 2}, "all brokers have the configuration")
    assert judge.configs("--broker-defaults") == {"message.max.bytes": "500"}
    judge.run(CONFIGS, "--alter", "--broker", "2", "--add-config", "message.max.bytes=1000000")
    wait_until(lambda: refusing(judge, topic) == {0, 2}, "a broker's own configuration comes first")
    judge.fail(CONFIGS, "--alter", "--broker", "2", "--add-config", "log.dirs=/elsewhere")
    for entity in (("--broker", "2"), ("--broker-defaults",)):
        judge.run(CONFIGS, "--alter", *entity, "--delete-config", "message.max.bytes")
        wait_until(partial(has_none, judge, *entity), "the configuration is gone")
    wait_until(lambda: refusing(judge, topic) == set(), "all brokers have the configuration of before")


def has_none(judge: Judge, *entity: str) -> bool:
    return judge.configs(*entity) == {}


def test_groups(judge: Judge) -> None:
    topic, name = judge.topic(ALL_REPLICAS), uuid.uuid4().hex[:8]
    for index in range(3):
        judge.write(topic, index, [b"x"] * 4)
    # Those that differ in the last digit have different coordinators.
    groups = [f"{name}-{number}" for number in range(3)]
    places = [TopicPartition(topic, index, 3) for index in range(3)]

    def member(group: str) -> Consumer:
        settings = {"bootstrap.servers": judge.cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
        return Consumer({**settings, "client.id": f"of-{group}", "log_level": 0})

    def committed(group: str) -> list[int]:
        with closing(member(group)) as consumer:
            return [each.offset for each in consumer.committed([TopicPartition(topic, n) for n in range(3)], 60)]

    def states() -> dict[str, str]:
        found = [line.split() for line in judge.run(GROUPS, "--list", "--state")]
        return {group: state for group, state, *_ in found if group in groups}

    for group in groups[1:]:
        with closing(member(group)) as consumer:
            consumer.commit(offsets=places, asynchronous=False)
    with closing(member(groups[0])) as consumer:
        consumer.subscribe([topic])
        wait_until(partial(is_assigned, consumer), "it has partitions")
        consumer.commit(offsets=places, asynchronous=False)
        assert states() == {groups[0]: "Stable", groups[1]: "Empty", groups[2]: "Empty"}
        described = judge.run(GROUPS, "--describe", "--group", groups[0])[1:]
        assert sorted(line.split()[1:6] for line in described) == [[topic, str(n), "3", "4", "1"] for n in range(3)]
        _, row = judge.run(GROUPS, "--describe", "--group", groups[0], "--members", "--verbose")
        assert row.split()[3:] == [f"of-{groups[0]}", "3", "(0,1,2)"]
        stated = {judge.run(GROUPS, "--describe", "--group", group, "--state")[1] for group in groups}
        assert {part(r"\((\d)\)", row) for row in stated} == {"1", "2", "3"}
        reset = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
        assert "current state is Stable" in judge.fail(GROUPS, "--group", groups[0], *reset)
        assert "The group is not empty" in judge.fail(GROUPS, "--delete", "--group", groups[0])
        assert committed(groups[1]) == [3, 3, 3]
    for group in groups:
        judge.run(GROUPS, "--group", group, *reset)
        assert committed(group) == [0, 0, 0]
    shifted = ("--reset-offsets", "--topic", f"{topic}:1,2", "--shift-by", "2")
    judge.run(GROUPS, "--group", groups[2], *shifted, "--dry-run")
    assert committed(groups[2]) == [0, 0, 0]
    judge.run(GROUPS, "--group", groups[2], *shifted, "--execute")
    assert committed(groups[2]) == [0, 2, 2]
    judge.run(GROUPS, "--delete-offsets", "--group", groups[2], "--topic", f"{topic}:1")
    assert committed(groups[2]) == [0, NO_OFFSET, 2]
    judge.run(GROUPS, "--delete", "--group", groups[0], "--group", groups[2])
    assert states() == {groups[1]: "Empty"}
    assert committed(groups[2]) == [NO_OFFSET] * 3


def is_assigned(consumer: Consumer) -> bool:
    consumer.poll(0.1)
    return bool(consumer.assignment())


def test_transactions(judge: Judge) -> None:
    topic, name = judge.topic([[1, 2, 3]]), f"judged-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": judge.cluster.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(60) == 0
    (listed,) = [line.split() for line in judge.run(TRANSACTIONS, "list") if line.startswith(name)]
    assert listed[3] == "Ongoing"
    described = judge.run(TRANSACTIONS, "describe", "--transactional-id", name)[1].split()
    assert described[0] == listed[1]
    assert described[4] == "Ongoing"
    assert described[-1] == f"{topic}-0"
    where = ("--topic", topic, "--partition", "0")
    for asked in ((), *(("--broker-id", str(broker)) for broker in IDS)):
        wait_until(partial(has_open_transaction, judge, listed[2], *where, *asked), f"{asked} describes the producer")
    producer.commit_transaction(60)
    wait_until(lambda: "CompleteCommit" in judge.run(TRANSACTIONS, "describe", "--transactional-id", name)[1], "ended")


def has_open_transaction(judge: Judge, producer_id: str, *where: str) -> bool:
    """Return whether the replica that is asked has one producer, whose transaction begins at offset 0."""
    rows = [line.split() for line in judge.run(TRANSACTIONS, "describe-producers", *where)[1:]]
    return [(row[0], row[-1]) for row in rows] == [(producer_id, "0")]


def test_a_transaction_that_hangs(judge: Judge) -> None:
    topic = judge.topic([[1, 2, 3]])
    verify = "transaction.partition.verification.enable"
    judge.run(CONFIGS, "--alter", "--broker-defaults", "--add-config", f"{verify}=false")
    with judge.cluster.brokers[1].connect() as wire:
        producer = exchange(wire, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        hang = partial(write_unregistered, wire, topic, producer.producer_id)
        wait_until(lambda: hang() is ErrorCode.NONE, "nobody verifies that the partition was added")
    judge.run(CONFIGS, "--alter", "--broker-defaults", "--delete-config", verify)
    searches = [("--topic", topic), *(("--broker-id", str(broker)) for broker in IDS)]
    for search in searches:
        wait_until(partial(finds, judge, topic, *search), f"it is found: {search}")
    judge.run(TRANSACTIONS, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    for search in searches:
        wait_until(partial(finds_none, judge, topic, *search), f"it has ended: {search}")


def write_unregistered(wire: socket.socket, topic: str, producer_id: int) -> ErrorCode:
    """Write a batch of a transaction that no coordinator knows of; it is years old."""
    records = batch([b"hangs"], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    request = produce_request(topic, {0: records}, acks=-1)
    request.transactional_id = f"hangs-{topic}"
    response = exchange(wire, request, 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def finds(judge: Judge, topic: str, *where: str) -> bool:
    """Return whether the tool finds a hanging transaction of the topic."""
    return any(line.startswith(topic) for line in judge.run(TRANSACTIONS, "find-hanging", *where))


def finds_none(judge: Judge, topic: str, *where: str) -> bool:
    return not finds(judge, topic, *where)


def test_sizes_in_log_directories(judge: Judge) -> None:
    topic, replicas = judge.topic([[1, 2], [2, 3]]), [(1, 0), (2, 0), (2, 1), (3, 1)]
    for index in range(2):
        judge.write(topic, index, [bytes(100)] * (3 + index))
        judge.cluster.wait_equal(topic, index, [broker for broker, of in replicas if of == index])
    *_, line = judge.run(LOG_DIRS, "--describe", "--topic-list", topic)
    found = {
        (each["broker"], replica["partition"]): (replica["size"], replica["offsetLag"], replica["isFuture"])
        for each in json.loads(line)["brokers"]
        for directory in each["logDirs"]
        for replica in directory["partitions"]
    }
    assert found == {
        (broker, f"{topic}-{index}"): (len(judge.cluster.log(broker, topic, index)), 0, False)
        for broker, index in replicas
    }
    *_, line = judge.run(LOG_DIRS, "--describe", "--broker-list", "3")
    (only,) = json.loads(line)["brokers"]
    assert only["broker"] == 3
    assert [directory["error"] for directory in only["logDirs"]] == [None]


def test_records_are_deleted_on_all_replicas(judge: Judge, tmp_path: Path) -> None:
    topic = judge.topic(ALL_REPLICAS)
    for index in range(3):
        judge.write(topic, index, [b"x"] * 5)
    assert judge.offsets(topic, "latest") == [f"{topic}:{index}:5" for index in range(3)]
    ends = {0: 2, 1: -1, 2: 9}
    partitions = [{"topic": topic, "partition": index, "offset": offset} for index, offset in ends.items()]
    told = judge.run(DELETE_RECORDS, "--offset-json-file", file(tmp_path, {"version": 1, "partitions": partitions}))
    assert f"partition: {topic}-0\tlow_watermark: 2" in told
    assert f"partition: {topic}-1\tlow_watermark: 5" in told
    assert any("OffsetOutOfRange" in line for line in told if line.startswith(f"partition: {topic}-2\t"))
    starts = [f"{topic}:0:2", f"{topic}:1:5", f"{topic}:2:0"]
    assert judge.offsets(topic, "earliest") == starts
    # Followers have deleted them, too, as they show when they lead.
    turned = [[last, middle, first] for first, middle, last in ALL_REPLICAS]
    judge.run(REASSIGN, *moves(tmp_path, topic, *turned), "--execute")
    wait_until(lambda: judge.replicas(topic) == turned, "others are to lead")
    judge.run(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: judge.leaders(topic) == [3, 1, 2], "others lead")
    wait_until(lambda: judge.offsets(topic, "earliest") == starts, "they start where the former leaders did")


def test_reassignments(judge: Judge, tmp_path: Path) -> None:
    topic = judge.topic([[1, 2], [2, 1]])
    for index in range(2):
        judge.write(topic, index, [bytes(100_000)] * 40)
    asked = file(tmp_path, {"version": 1, "topics": [{"topic": topic}]})
    generated = judge.run(REASSIGN, "--generate", "--topics-to-move-json-file", asked, "--broker-list", "2,3")
    proposed = [each["replicas"] for each in json.loads(generated[-1])["partitions"]]
    assert [sorted(replicas) for replicas in proposed] == [[2, 3], [2, 3]]
    plan = moves(tmp_path, topic, [3, 2], [2, 3])
    judge.run(REASSIGN, *plan, "--execute", "--throttle", "1000")
    assert judge.run(REASSIGN, "--list")[1:] == [
        f"{topic}-0: replicas: 3,2,1. adding: 3. removing: 1.",
        f"{topic}-1: replicas: 2,3,1. adding: 3. removing: 1.",
    ]
    rates = {
        f"--broker {broker} {side}.replication.throttled.rate": "1000"
        for broker in IDS
        for side in ("leader", "follower")
    }
    replicas = {
        f"--topic {topic} leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
        f"--topic {topic} follower.replication.throttled.replicas": "0:3,1:3",
    }
    wait_until(lambda: judge.throttles(topic) == rates | replicas, "the throttles are set")
    assert [line for line in judge.run(REASSIGN, *plan, "--verify") if "still in progress" in line] == [
        f"Reassignment of partition {topic}-{index} is still in progress." for index in range(2)
    ]
    assert "Cannot execute" in judge.fail(REASSIGN, *plan, "--execute")
    assert f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1" in judge.run(
        REASSIGN, *plan, "--cancel"
    )
    wait_until(lambda: judge.replicas(topic) == [[2, 1], [2, 1]], "the replicas are those of before")
    wait_until(lambda: judge.throttles(topic) == {}, "no throttle is set")
    wait_until(partial(has_no_replica, judge, 3, topic, range(2)), "broker 3 has nothing of it")

    judge.run(REASSIGN, *plan, "--execute", "--throttle", "100000000")
    completed = [f"Reassignment of partition {topic}-{index} is completed." for index in range(2)]
    wait_until(
        lambda: [line for line in judge.run(REASSIGN, *plan, "--verify") if "completed" in line] == completed,
        "the partitions are moved",
    )
    assert judge.replicas(topic) == [[3, 2], [2, 3]]
    wait_until(lambda: judge.throttles(topic) == {}, "no throttle is set")
    for index in range(2):
        judge.cluster.wait_equal(topic, index, (2, 3))
    wait_until(partial(has_no_replica, judge, 1, topic, range(2)), "broker 1 has deleted its replicas")


def test_elections_and_what_is_described_meanwhile(judge: Judge) -> None:
    cluster = judge.cluster
    topic = judge.topic([[2, 3]])

    def shown(what: str) -> list[str]:
        return judge.run(TOPICS, "--describe", "--topic", topic, what)

    cluster.stop(3)
    wait_until(lambda: len(shown("--under-replicated-partitions")) == 1, "the replica is out of sync")
    wait_until(lambda: len(shown("--under-min-isr-partitions")) == 1, "the ISR is too small")
    assert shown("--unavailable-partitions") == []
    judge.run(CONFIGS, "--alter", "--topic", topic, "--add-config", "min.insync.replicas=1")
    wait_until(lambda: shown("--under-min-isr-partitions") == [], "the ISR is large enough")
    wait_until(lambda: judge.write(topic, 0, [b"lost"]) == [None], "the leader has the configuration")
    cluster.kill(2)
    cluster.start(3)
    cluster.wait_alive((1, 3), (1, 3))
    wait_until(lambda: len(shown("--unavailable-partitions")) == 1, "nobody leads")
    where = ("--topic", topic, "--partition", "0")
    judge.fail(ELECT, "--election-type", "preferred", *where)
    assert judge.run(ELECT, "--election-type", "unclean", *where) == [
        f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0"
    ]
    wait_until(lambda: judge.leaders(topic) == [3], "a replica leads that was not in sync")
    assert judge.write(topic, 0, [b"kept"]) == [None]
    cluster.start(2)
    cluster.wait_alive()
    cluster.wait_whole(topic)
    assert judge.offsets(topic, "latest") == [f"{topic}:0:1"]
    assert judge.run(ELECT, "--election-type", "preferred", *where) == [
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"
    ]
    wait_until(lambda: judge.leaders(topic) == [2], "the preferred replica leads")
    cluster.wait_equal(topic, 0, (2, 3))
    for what in ("--under-replicated-partitions", "--under-min-isr-partitions", "--unavailable-partitions"):
        wait_until(partial(lambda what: shown(what) == [], what), f"all is well: {what}")


def test_former_tools_write_to_zookeeper(judge: Judge, tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_2))
    topic, user = f"former-{uuid.uuid4().hex[:8]}", f"user-{uuid.uuid4().hex[:8]}"
    with KafkaTools(kafka.KAFKA_2) as tools:

        def run(tool: str, *words: str) -> None:
            found = tools.run(BY_ZOOKEEPER[tool], "--zookeeper", judge.cluster.zookeeper, *words)
            assert not [line for line in found if line.startswith(("Error", "Exit"))], found

        run("topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1")
        wait_until(lambda: judge.replicas(topic) == ALL_REPLICAS[:2], "the topic is created")
        run("topics", "--alter", "--topic", topic, "--partitions", "3", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
        wait_until(lambda: judge.replicas(topic) == ALL_REPLICAS, "there is another partition")
        judge.cluster.wait_whole(topic)
        assert judge.write(topic, 2, [b"x"]) == [None]
        run("reassign", *moves(tmp_path, topic, [2, 1, 3], [3, 2], [3, 2, 1]), "--execute")
        wait_until(lambda: judge.replicas(topic) == [[2, 1, 3], [3, 2], [3, 2, 1]], "the partitions are moved")
        wait_until(partial(has_no_replica, judge, 1, topic, [1]), "the former replica is deleted")
        assert judge.leaders(topic) == [1, 2, 3]
        which = [{"topic": topic, "partition": index} for index in range(2)]
        run("elect", "--path-to-json-file", file(tmp_path, {"partitions": which}))
        wait_until(lambda: judge.leaders(topic) == [2, 3, 3], "the preferred replicas lead")
        alter = ("--alter", "--add-config", "retention.ms=77", "--entity-type", "topics", "--entity-name", topic)
        run("configs", *alter)
        wait_until(lambda: judge.configs("--topic", topic).get("retention.ms") == "77", "the topic is configured")
        run(
            "configs",
            "--alter",
            "--entity-type",
            "users",
            "--entity-name",
            user,
            "--add-config",
            "producer_byte_rate=7",
        )
        quota = f"Quota configs for user-principal '{user}' are producer_byte_rate=7.0"
        wait_until(lambda: quota in judge.run(CONFIGS, "--describe", "--user", user), "the user has a quota")
        run("topics", "--delete", "--topic", topic)
        for broker in IDS:
            wait_until(partial(has_no_replica, judge, broker, topic, range(3)), f"{broker} has nothing of {topic}")

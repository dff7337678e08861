"""Test that access control lists follow between clusters of Apache Kafka, and what a mirror does without rights.

There is one secured broker, mirrored to itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.security.acls import AclBinding, AclFilter
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.housekeeping.checkpoints import Checkpoints
from kafkalog.mirror.housekeeping.group_positions import GroupPositions
from kafkalog.mirror.housekeeping.marks import Marks
from kafkalog.mirror.internal_topics.runs import Run
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.acls import AclFollower
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission
from kafkalog.protocol.acls import AclResourceType as Kind
from peers.brokers.kafka import KAFKA_4
from peers.brokers.secured_kafka import BOB, SecuredKafka
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.secured.ways import by_password
from tests.support.waiting import wait_until

ANN, EVE = "User:ann", "User:eve"
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ON = {"sync_topic_acls_interval_seconds": "1"}


@pytest.fixture
def server(secured_kafkas: Callable[[str], SecuredKafka]) -> SecuredKafka:
    return secured_kafkas(KAFKA_4)


@pytest.fixture
def clusters(server: SecuredKafka) -> Clusters:
    return Clusters(server.bootstrap, server.bootstrap)


def of_topic(admin: Admin, topic: str) -> set[AclBinding]:
    return set(admin.acls.describe(AclFilter(Kind.TOPIC, topic, pattern_type=AclPatternType.LITERAL)))


def test_access_control_lists_follow(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, later = f"words-{alias}", f"words-{alias}-later"
    remote = f"{alias}.{topic}"
    reads = AclBinding(Kind.TOPIC, topic, ANN, AclOperation.DESCRIBE)
    given = [
        reads,
        AclBinding(Kind.TOPIC, topic, ANN, AclOperation.ALL, host="10.0.0.1"),
        AclBinding(Kind.TOPIC, topic, ANN, AclOperation.WRITE),
        AclBinding(Kind.TOPIC, topic, EVE, AclOperation.WRITE, DENY),
        AclBinding(Kind.TOPIC, topic, EVE, AclOperation.READ, pattern_type=AclPatternType.PREFIXED),
        AclBinding(Kind.GROUP, topic, EVE, AclOperation.READ),
    ]
    expected = {
        reads._replace(name=remote),
        AclBinding(Kind.TOPIC, remote, ANN, AclOperation.READ, host="10.0.0.1"),
        AclBinding(Kind.TOPIC, remote, EVE, AclOperation.WRITE, DENY),
    }
    make(clusters.source, topic)
    with Admin(clusters.client("source")) as admin:
        admin.acls.create(given)
        wait_until(lambda: len(of_topic(admin, topic)) == 4, "the broker knows them")
        start_mirror(f"{topic}.*", **ON)
        wait_until(lambda: of_topic(admin, remote) == expected, "they follow")
        admin.acls.create([reads._replace(operation=AclOperation.DESCRIBE_CONFIGS)])
        make(clusters.source, later)
        admin.acls.create([reads._replace(name=later)])
        write(clusters.source, later, range(3))
        read_all(clusters.target, f"{alias}.{later}", 3)
        wait_until(lambda: len(of_topic(admin, remote)) == 4, "a new one follows")
        wait_until(lambda: len(of_topic(admin, f"{alias}.{later}")) == 1, "those of a new topic follow")
        # What is taken away in the source stays, as with MirrorMaker 2.
        deleted = admin.acls.delete([AclFilter(Kind.TOPIC, topic, pattern_type=AclPatternType.LITERAL)])
        assert set(given[:4]) < set(deleted)
        assert len(of_topic(admin, remote)) == 4
        admin.acls.delete([AclFilter(principal=ANN), AclFilter(principal=EVE)])


@contextmanager
def allowed(admin: Admin, operation: AclOperation) -> Iterator[None]:
    """Let BOB do something with the cluster meanwhile."""
    binding = AclBinding(Kind.CLUSTER, "kafka-cluster", f"User:{BOB}", operation)
    admin.acls.create([binding])
    wait_until(lambda: binding in admin.acls.describe(), "the broker knows it")
    yield
    admin.acls.delete([AclFilter(Kind.CLUSTER, principal=f"User:{BOB}")])


def test_missing_rights_are_named_once(server: SecuredKafka, alias: str, caplog: pytest.LogCaptureFixture) -> None:
    topic = f"words-{alias}"
    remote = f"{alias}.{topic}"
    reads = AclBinding(Kind.TOPIC, topic, ANN, AclOperation.READ)
    with (
        Admin({"bootstrap.servers": server.bootstrap}) as admin,
        Admin(by_password(server, "PLAIN", BOB)) as other,
        caplog.at_level(logging.WARNING, "kafkalog.mirror"),
    ):
        admin.acls.create([reads])
        wait_until(lambda: bool(of_topic(admin, topic)), "the broker knows it")
        follower = AclFollower(lambda name: f"{alias}.{name}", 0.0, other, other)
        for _ in range(2):
            follower.follow([topic])
        with allowed(admin, AclOperation.DESCRIBE):
            for _ in range(2):
                follower.follow([topic])
            assert of_topic(admin, remote) == set()
            with allowed(admin, AclOperation.ALTER):
                follower.follow([topic])
                wait_until(lambda: of_topic(admin, remote) == {reads._replace(name=remote)}, "it is copied")
        admin.acls.delete([AclFilter(principal=ANN)])
    assert [each.partition(" for that")[0] for each in caplog.messages] == [
        "ACLs are not copied: the mirror needs Describe on the source's cluster",
        "ACLs are not copied: the mirror needs Alter on the target's cluster",
    ]


def test_a_group_that_may_not_be_changed_in_the_source_is_named_once(
    server: SecuredKafka, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    tp, remote = TopicPartition(f"words-{alias}", 0), TopicPartition(f"{alias}.words-{alias}", 0)
    plain = {"bootstrap.servers": server.bootstrap}
    settings, _ = MirrorSettings.of({"groups": f".*-{alias}"}, alias, "target", (plain, plain))
    for topic in (tp.topic, remote.topic, settings.naming.checkpoints, settings.naming.group_marks):
        make(server.bootstrap, topic)
    for topic in (tp.topic, remote.topic):
        write(server.bootstrap, topic, range(9))
    unseen, seen, allowed_one = (f"{name}-{alias}" for name in ("unseen", "seen", "allowed"))
    bob = f"User:{BOB}"
    rights = [
        AclBinding(Kind.TOPIC, tp.topic, bob, AclOperation.READ),
        AclBinding(Kind.GROUP, seen, bob, AclOperation.DESCRIBE),
        AclBinding(Kind.GROUP, allowed_one, bob, AclOperation.READ),
    ]
    progress = Progress()
    progress.assigned([tp], {tp: 9}, [(tp, Run(0, 0, 9))])
    with (
        Admin(plain) as admin,
        Admin(by_password(server, "PLAIN", BOB)) as other,
        Producer(plain) as producer,
        caplog.at_level(logging.WARNING, "kafkalog.mirror"),
    ):
        admin.acls.create(rights)
        wait_until(lambda: set(rights) <= set(admin.acls.describe()), "the broker knows them")
        checkpoints = Checkpoints(settings, progress, other, admin, producer)
        checkpoints.emit()
        groups = GroupPositions(settings, progress, (other, admin), checkpoints, Marks(settings, progress, producer))
        for group in (unseen, seen, allowed_one):
            admin.groups.alter_offsets(group, {remote: 5})

        def positions(topic: TopicPartition) -> list[int | None]:
            found = admin.groups.offsets([unseen, seen, allowed_one]).values()
            return [offsets[topic].offset if topic in offsets else None for offsets in found]

        for _ in range(2):
            groups.bring_back()
        assert positions(tp) == [None, None, 5]
        admin.acls.create([AclBinding(Kind.GROUP, seen, bob, AclOperation.READ)])

        def comes_back() -> bool:
            groups.bring_back()
            return positions(tp) == [None, 5, 5]

        wait_until(comes_back, "it is brought back once that is allowed")
        admin.acls.delete([AclFilter(principal=bob)])
    assert [each.partition(":")[0] for each in caplog.messages] == [
        f"the positions of group {unseen} are not brought into the source",
        f"the positions of group {seen} are not brought into the source",
    ]
    assert all("The mirror needs Describe and Read on the group" in each for each in caplog.messages)


def test_a_group_that_may_not_be_described_holds_no_other_up(
    server: SecuredKafka, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    """On both sides: groups are listed by a right on the cluster, and described by one on each of them."""
    tp, remote = TopicPartition(f"words-{alias}", 0), TopicPartition(f"{alias}.words-{alias}", 0)
    plain = {"bootstrap.servers": server.bootstrap}
    settings, _ = MirrorSettings.of({"groups": f".*-{alias}"}, alias, "target", (plain, plain))
    for topic in (tp.topic, remote.topic, settings.naming.checkpoints):
        make(server.bootstrap, topic)
    for topic in (tp.topic, remote.topic):
        write(server.bootstrap, topic, range(9))
    hidden, seen = f"a-hidden-{alias}", f"seen-{alias}"
    bob = f"User:{BOB}"
    rights = [
        *(AclBinding(Kind.TOPIC, each, bob, AclOperation.READ) for each in (tp.topic, remote.topic)),
        *(AclBinding(Kind.GROUP, group, bob, AclOperation.READ) for group in (hidden, seen)),
        AclBinding(Kind.CLUSTER, "kafka-cluster", bob, AclOperation.DESCRIBE),
    ]
    denied = AclBinding(Kind.GROUP, hidden, bob, AclOperation.DESCRIBE, DENY)
    progress = Progress()
    progress.assigned([tp], {tp: 9}, [(tp, Run(0, 0, 9))])
    with (
        Admin(plain) as admin,
        Admin(by_password(server, "PLAIN", BOB)) as other,
        Producer(plain) as producer,
        caplog.at_level(logging.WARNING, "kafkalog.mirror"),
    ):
        for group in (hidden, seen):
            admin.groups.alter_offsets(group, {tp: 5})
        admin.acls.create([*rights, denied])
        wait_until(lambda: {*rights, denied} <= set(admin.acls.describe()), "the broker knows them")
        ours = Checkpoints(settings, progress, other, admin, producer)
        for _ in range(2):
            ours.emit()
        assert list(ours.newest) == [seen]
        theirs = Checkpoints(settings, progress, admin, other, producer)
        theirs.emit()
        assert set(theirs.newest) == {hidden, seen}
        groups = GroupPositions(settings, progress, (admin, other), theirs, None)
        for _ in range(2):
            groups.synchronize()
        positions = admin.groups.offsets([hidden, seen])
        assert [each[remote].offset if remote in each else None for each in positions.values()] == [None, 5]
        admin.acls.delete([AclFilter(principal=bob)])
    assert [each.partition(":")[0] for each in caplog.messages] == [
        f"the positions of group {hidden} are not translated",
        f"the positions of group {hidden} are not brought into the target",
    ]
    assert all(". The mirror needs Describe" in each for each in caplog.messages)

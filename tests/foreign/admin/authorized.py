"""Brokers with authorizers, of Apache Kafka and ours, which get the same access control entries and requests.

All clients are `User:ANONYMOUS`. What they may do depends on their addresses: administrators and the brokers themselves
come from `HOME`, and the client whose rights are compared from `AWAY`, which is this machine as well.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import exchange

HOME, AWAY, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
ANONYMOUS = "User:ANONYMOUS"
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
BROKER_ID = "1"
SETTINGS = {
    "broker.id": BROKER_ID,
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:root",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
TOPICS = ("t", "u")
GROUPS = ("g", "h")
TRANSACTIONAL_ID = "id"
Op, Kind = AclOperation, AclResourceType
_NAMES = {
    Kind.TOPIC: ("t", "u", "t2", "*"),
    Kind.GROUP: ("g", "h", "*"),
    Kind.CLUSTER: (CLUSTER_NAME,),
    Kind.TRANSACTIONAL_ID: (TRANSACTIONAL_ID, "i", "*"),
}
EVERYTHING = AclResourceType.ANY


def acl(
    kind: AclResourceType,
    name: str,
    operation: AclOperation,
    host: str,
    permission: AclPermission = AclPermission.ALLOW,
    pattern_type: AclPatternType = AclPatternType.LITERAL,
    principal: str = ANONYMOUS,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


AT_HOME = [acl(kind, name, Op.ALL, HOME) for kind, (*_, name) in _NAMES.items()]
"""Entries by which administrators and brokers may do everything."""


def some_acls(chance: random.Random) -> list[AclCreation]:
    """Return entries that concern clients from AWAY, and some that look like it."""
    found = []
    for _ in range(chance.randrange(1, 9)):
        kind = chance.choice([Kind.TOPIC, Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.TRANSACTIONAL_ID])
        is_prefixed = kind is not Kind.CLUSTER and chance.random() < 0.3
        permission = AclPermission.DENY if chance.random() < 0.25 else AclPermission.ALLOW
        hosts = [AWAY, AWAY, AWAY, ELSEWHERE] + ["*"] * (permission is AclPermission.ALLOW)
        operations = [Op.ALL, *(each for each in Op if Op.ALL < each < Op.CREATE_TOKENS)]
        found.append(
            acl(
                kind,
                chance.choice(_NAMES[kind])[: 1 if is_prefixed else None],
                chance.choice(operations),
                chance.choice(hosts),
                permission,
                AclPatternType.PREFIXED if is_prefixed else AclPatternType.LITERAL,
                chance.choice([ANONYMOUS, ANONYMOUS, "User:*", "User:other"]),
            )
        )
    return found


class Peer:
    """One broker, and connections with it: an administrator's and the client's whose rights are compared.

    Attributes:
        topic_ids: the ids of TOPICS.
    """

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._home = self.connect(HOME)
        self._away = self.connect(AWAY)
        self.topic_ids: dict[str, UUID] = {}

    def connect(self, source: str) -> socket.socket:
        return socket.create_connection((self._host, self._port), timeout=30, source_address=(source, 0))

    def close(self) -> None:
        self._home.close()
        self._away.close()

    def administer(self, message: Any, version: int) -> Any:
        return exchange(self._home, message, version)

    def ask(self, message: Any, version: int) -> Any:
        return exchange(self._away, message, version)

    def set_acls(self, creations: Iterable[AclCreation]) -> None:
        """Replace all entries, but those of HOME, by others."""
        wanted = list(creations)
        filters = [
            DeleteAclsFilter(
                resource_type_filter=EVERYTHING,
                resource_name_filter=None,
                pattern_type_filter=AclPatternType.ANY,
                principal_filter=None,
                host_filter=host,
                operation=Op.ANY,
                permission_type=AclPermission.ANY,
            )
            for host in (AWAY, ELSEWHERE, "*")
        ]
        deleted = self.administer(DeleteAclsRequest(filters=filters), 2)
        assert [each.error_code for each in deleted.filter_results] == [0, 0, 0]
        created = self.administer(CreateAclsRequest(creations=wanted), 2)
        assert [each.error_code for each in created.results] == [0] * len(wanted)

    def prepare(self) -> None:
        """Create topics, offsets of groups and a transactional id, so that there is something that rights are about."""
        wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        wait_until(partial(self._creates, wanted), "the topics are created")
        wait_until(self._knows_topics, "the topics have leaders")
        for kind, keys in ((0, GROUPS), (1, (TRANSACTIONAL_ID,))):
            for key in keys:
                finding = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                wait_until(partial(self._is_found, finding), "there is a coordinator")
        for group in GROUPS:
            wait_until(partial(self._commits, group), "offsets are committed")
        asked = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=10_000)
        wait_until(lambda: self.administer(asked, 4).error_code == 0, "there is a transactional id")

    def _creates(self, wanted: list[CreatableTopic]) -> bool:
        made = self.administer(CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 4)
        return all(each.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for each in made.topics)

    def _knows_topics(self) -> bool:
        topics = [MetadataRequestTopic(name=name) for name in TOPICS]
        found = self.administer(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 10).topics
        self.topic_ids = {each.name: each.topic_id for each in found}
        return all(not each.error_code and each.partitions[0].leader_id == 1 for each in found)

    def _is_found(self, finding: FindCoordinatorRequest) -> bool:
        return bool(self.administer(finding, 4).coordinators[0].error_code == ErrorCode.NONE)

    def _commits(self, group: str) -> bool:
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        asked = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=name, partitions=[row]) for name in TOPICS],
        )
        answer = self.administer(asked, 7)
        return all(each.error_code == 0 for topic in answer.topics for each in topic.partitions)


class Pair(NamedTuple):
    """The two brokers."""

    ours: Peer
    theirs: Peer


@contextmanager
def brokers(directory: Path) -> Iterator[Pair]:
    """Run a broker of each side, each with a part of one ZooKeeper, and prepare both."""
    with ExitStack() as stack:
        address = stack.enter_context(_zookeeper(directory, "/ours", "/theirs"))
        theirs = stack.enter_context(_kafka(directory, f"{address}/theirs", BROKER_ID))
        ours = stack.enter_context(_kafkalog(directory, f"{address}/ours", BROKER_ID))
        pair = Pair(Peer(ours.bootstrap), Peer(theirs.bootstrap))
        for each in pair:
            stack.callback(each.close)
            each.prepare()
        yield pair


class Shared(NamedTuple):
    """A cluster of two brokers: 1 is of Apache Kafka, and the controller; 2 is ours."""

    zookeeper: str
    ours: KafkalogBroker
    theirs: ZooKeeperKafka


@contextmanager
def shared_cluster(directory: Path) -> Iterator[Shared]:
    """Run brokers of both sides in one cluster."""
    with ExitStack() as stack:
        address = f"{stack.enter_context(_zookeeper(directory, '/shared'))}/shared"
        theirs = stack.enter_context(_kafka(directory, address, "1"))
        ours = stack.enter_context(_kafkalog(directory, address, "2"))
        yield Shared(address, ours, theirs)


@contextmanager
def _zookeeper(directory: Path, *roots: str) -> Iterator[str]:
    with ZooKeeper(kafka.KAFKA_3, directory / "zookeeper") as running:
        running.wait()
        grant_at_home(running.address, roots)
        yield running.address


def _kafka(directory: Path, zookeeper: str, broker: str) -> ZooKeeperKafka:
    settings = {**SETTINGS, "broker.id": broker}
    heap = ("-Xmx300M", "-Xms100M")
    return ZooKeeperKafka(kafka.KAFKA_3, zookeeper, directory=directory / "theirs", config=settings, heap=heap)


def _kafkalog(directory: Path, zookeeper: str, broker: str) -> KafkalogBroker:
    settings = {**SETTINGS, "broker.id": broker, "zookeeper.connect": zookeeper}
    return KafkalogBroker(directory / "ours", settings)


def grant_at_home(address: str, roots: Iterable[str]) -> None:
    """Write the entries of HOME into ZooKeeper, as nobody may create them in the beginning."""
    from kazoo.client import KazooClient

    from broker.metadata.znodes import acls
    from broker.security.authorizer.model import AclEntry, ResourcePattern

    client = KazooClient(address)
    client.start(timeout=60)
    try:
        for root in roots:
            for each in AT_HOME:
                pattern = ResourcePattern(
                    Kind(each.resource_type), AclPatternType(each.resource_pattern_type), each.resource_name
                )
                entry = AclEntry(each.principal, each.host, Op(each.operation), AclPermission(each.permission_type))
                client.create(f"{root}{acls.path(pattern)}", acls.encode(frozenset({entry})), makepath=True)
    finally:
        client.stop()
        client.close()

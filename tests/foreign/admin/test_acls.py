"""Differential test of authorization: the same entries and requests to Apache Kafka 3.9 and to our broker."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.messages import (
    create_topics,
    delete_acls,
    describe_acls,
    describe_cluster,
    describe_groups,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)
from kafkalog.protocol.schema import Struct
from peers import require
from peers.brokers import kafka
from tests.broker.api import rules_of_administrators, rules_of_clients
from tests.broker.api.rights import AUTHORIZATION
from tests.broker.serving import RECORDS, TOPIC_ID
from tests.foreign.admin.authorized import (
    AWAY,
    BROKER_ID,
    ELSEWHERE,
    GROUPS,
    TOPICS,
    Pair,
    Peer,
    acl,
    brokers,
    some_acls,
)
from tests.support.amount import examples

pytestmark = [pytest.mark.peer, pytest.mark.timeout(900)]

UNKNOWN_THERE = {
    "find coordinator of a share group", "consumer group heartbeat", "consumer group describe",
    "describe topic partitions", "describe configs of 32", "alter configs of 32", "incremental alter configs of 32",
}  # fmt: skip
"""Requests that Kafka 3.9 does not serve with ZooKeeper."""
DESTRUCTIVE = {"delete topics by id", "delete groups", "offset delete"}
"""Requests that take away what the others are about; `test_who_may_not_delete` compares them."""
SEED = 20261130


@pytest.fixture(scope="module")
def pair(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    require(kafka.missing(kafka.KAFKA_3))
    with brokers(tmp_path_factory.mktemp("authorized")) as running:
        yield running


def with_ids(value: Any, topic_id: Any) -> Any:
    """Return a copy of a message with the ids of the topic `t` and of the broker."""
    if isinstance(value, list):
        return [with_ids(each, topic_id) for each in value]
    if isinstance(value, Struct):
        found = copy.copy(value)
        for field in value.fields:
            setattr(found, field.name, with_ids(getattr(value, field.name), topic_id))
        return found
    return {TOPIC_ID: topic_id, "0": BROKER_ID}.get(value, value) if isinstance(value, UUID | str) else value


def picture(value: Any, version: int, path: str = "") -> list[str]:
    """Return the errors of authorization in a response, each with where it is; names count, not positions."""
    if isinstance(value, list):
        return sorted(each for item in value for each in picture(item, version, path))
    found: list[str] = []
    if isinstance(value, Struct):
        named = [getattr(value, each, None) for each in ("name", "topic_name", "topic", "group_id", "resource_name")]
        here = f"{path}/{next((each for each in named if isinstance(each, str)), '')}"
        for field in value.fields:
            if version in field.versions:
                content = getattr(value, field.name)
                if field.name.endswith("error_code"):
                    found += [f"{here} {field.name}={int(content)}"] if content in AUTHORIZATION else []
                elif field.name.endswith("authorized_operations"):
                    found.append(f"{here} {field.name}={content}")
                else:
                    found += picture(content, version, here)
    return sorted(found)


RULES = {
    name: (rule.message, rule.version)
    for name, rule in {**rules_of_clients.RULES, **rules_of_administrators.RULES}.items()
    if name not in UNKNOWN_THERE | DESTRUCTIVE
}
ALL = (*TOPICS, "t2", "strange/name")


def _produced(name: str) -> produce.TopicProduceData:
    row = produce.PartitionProduceData(index=0, records=memoryview(bytearray(RECORDS)))
    return produce.TopicProduceData(name=name, partition_data=[row])


MORE: dict[str, tuple[Any, int]] = {
    "produce to several topics": (
        produce.ProduceRequest(
            transactional_id=None, acks=1, timeout_ms=1000, topic_data=[_produced(name) for name in (*TOPICS, "t2")]
        ),
        8,
    ),
    "offsets of several topics": (
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=name, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
                for name in (*TOPICS, "t2")
            ],
        ),
        5,
    ),
    "several topics": (
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=name) for name in (*TOPICS, "__consumer_offsets")],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        9,
    ),
    "unknown topics": (
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=name) for name in ("t3", "strange/name")],
            allow_auto_topic_creation=False,
        ),
        9,
    ),
    "a topic by its id": (
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=None, topic_id=TOPIC_ID)], allow_auto_topic_creation=False
        ),
        12,
    ),
    "the cluster": (describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True), 0),
    "groups": (describe_groups.DescribeGroupsRequest(groups=list(GROUPS), include_authorized_operations=True), 5),
    "commit several topics": (
        offset_commit.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)],
                )
                for name in (*TOPICS, "t2")
            ],
        ),
        7,
    ),
    "fetch offsets of several groups": (
        offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=[
                        offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
                        for name in (*TOPICS, "t2")
                    ],
                )
                for group in GROUPS
            ]
        ),
        8,
    ),
    "create several topics": (
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("t", "t2", "t3", "w")
            ],
            timeout_ms=1000,
            validate_only=True,
        ),
        6,
    ),
}


def lists(peer: Peer) -> dict[str, list[str]]:
    """Return the lists that leave out what a client may not see."""
    topics = peer.ask(metadata.MetadataRequest(topics=None), 9).topics
    groups = peer.ask(list_groups.ListGroupsRequest(), 4).groups
    transactions = peer.ask(list_transactions.ListTransactionsRequest(), 0).transaction_states
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    (offsets,) = peer.ask(offset_fetch.OffsetFetchRequest(groups=[group]), 8).groups
    wanted = describe_acls.DescribeAclsRequest(
        resource_type_filter=AclResourceType.ANY,
        resource_name_filter="t",
        pattern_type_filter=AclPatternType.MATCH,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    acls = peer.ask(wanted, 2).resources
    return {
        "topics": sorted(each.name for each in topics),
        "groups": sorted(each.group_id for each in groups),
        "transactions": sorted(each.transactional_id for each in transactions),
        "offsets": sorted(each.name for each in offsets.topics),
        "acls": sorted(
            f"{each.resource_type} {each.pattern_type} {each.resource_name} {entry.principal} {entry.host} "
            f"{entry.operation} {entry.permission_type}"
            for each in acls
            for entry in each.acls
        ),
    }


def answers(peer: Peer) -> dict[str, object]:
    """Return what a broker answers to all requests."""
    found: dict[str, object] = {}
    for name, (message, version) in {**RULES, **MORE}.items():
        response = peer.ask(with_ids(message, peer.topic_ids["t"]), version)
        found[name] = picture(response, version)
    return found | lists(peer)


def test_all_apis_answer_as_kafkas_do_whatever_the_entries(pair: Pair) -> None:
    chance = random.Random(SEED)
    different: dict[str, tuple[object, ...]] = {}
    for number in range(examples(150)):
        acls = some_acls(chance)
        for peer in pair:
            peer.set_acls(acls)
        ours, theirs = answers(pair.ours), answers(pair.theirs)
        for name in ours:
            if ours[name] != theirs[name]:
                different.setdefault(name, (number, ours[name], theirs[name], acls))
    assert not different


@pytest.mark.parametrize(
    "rights",
    [
        (),
        ((AclResourceType.TOPIC, "t", AclOperation.DESCRIBE), (AclResourceType.GROUP, "g", AclOperation.DESCRIBE)),
        ((AclResourceType.TOPIC, "u", AclOperation.DELETE), (AclResourceType.GROUP, "h", AclOperation.DELETE)),
        ((AclResourceType.TOPIC, "u", AclOperation.READ), (AclResourceType.GROUP, "g", AclOperation.READ)),
    ],
)
def test_who_may_not_delete(pair: Pair, rights: tuple[tuple[AclResourceType, str, AclOperation], ...]) -> None:
    rules = {**rules_of_clients.RULES, **rules_of_administrators.RULES}

    def told(peer: Peer) -> list[object]:
        peer.set_acls(acl(*right, AWAY) for right in rights)
        found: list[object] = []
        for name in sorted(DESTRUCTIVE):
            response = peer.ask(with_ids(rules[name].message, peer.topic_ids["t"]), rules[name].version)
            found.append(picture(response, rules[name].version))
            if name == "delete topics by id":
                found.append([(each.name, each.topic_id == peer.topic_ids["t"]) for each in response.responses])
        return found

    assert told(pair.ours) == told(pair.theirs)


def some_filter(chance: random.Random) -> dict[str, Any]:
    """Return the fields of a filter that may select some of the entries of `some_acls`."""
    is_named = chance.random() < 0.7
    return {
        "resource_type_filter": chance.choice(
            [each for each in AclResourceType if AclResourceType.UNKNOWN < each < AclResourceType.DELEGATION_TOKEN]
        ),
        "resource_name_filter": chance.choice(["t", "u", "t2", "tu", "g", "i", "id", "*"]) if is_named else None,
        "pattern_type_filter": chance.choice(list(AclPatternType)[1:]),
        "principal_filter": chance.choice([None, None, "User:ANONYMOUS", "User:*", "User:nobody"]),
        "host_filter": chance.choice([AWAY, ELSEWHERE, "*"]),
        "operation": chance.choice([AclOperation.ANY, AclOperation.ANY, AclOperation.ALL, AclOperation.READ]),
        "permission_type": chance.choice([AclPermission.ANY, AclPermission.ANY, AclPermission.DENY]),
    }


def test_filters_select_and_delete_the_same(pair: Pair) -> None:
    chance = random.Random(SEED)
    for _ in range(examples(100)):
        acls = [each for _ in range(4) for each in some_acls(chance)]
        fields = [some_filter(chance) for _ in range(3)]

        def told(peer: Peer) -> list[object]:
            peer.set_acls(acls)  # noqa: B023
            found: list[object] = []
            for each in fields:  # noqa: B023
                resources = peer.administer(describe_acls.DescribeAclsRequest(**each), 2).resources
                found.append(
                    sorted(
                        (one.resource_type, one.pattern_type, one.resource_name, str(entry))
                        for one in resources
                        for entry in one.acls
                    )
                )
            filters = [delete_acls.DeleteAclsFilter(**each) for each in fields]  # noqa: B023
            deleted = peer.administer(delete_acls.DeleteAclsRequest(filters=filters), 2).filter_results
            return [*found, *(sorted(map(str, each.matching_acls)) for each in deleted)]

        assert told(pair.ours) == told(pair.theirs), (acls, fields)

"""OffsetCommit and OffsetFetch of version 0, which are about nodes in ZooKeeper where the broker is a member."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator

import pytest

from kafkalog.protocol.errors import ErrorCode
from tests.broker.api.groups.groups_support import commit, committed, fetch_response, find
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def connection(over_zookeeper: MemberCluster) -> Iterator[socket.socket]:
    with over_zookeeper.broker.connect() as sock:
        yield sock


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def test_version_0_is_about_zookeeper(over_zookeeper: MemberCluster, connection: socket.socket, group: str) -> None:
    topic = over_zookeeper.new_topic(2)
    offsets = {(topic, 0): 5, (topic, 1): 1 << 40}
    assert commit(connection, group, offsets, 0) == [NONE, NONE]
    assert over_zookeeper.offsets(group, topic) == {0: 5, 1: 1 << 40}
    assert committed(connection, group, list(offsets), 0) == offsets
    assert commit(connection, group, {(topic, 0): 3}, 0) == [NONE]
    assert over_zookeeper.offsets(group, topic) == {0: 3, 1: 1 << 40}


def test_later_versions_are_about_the_coordinator(
    over_zookeeper: MemberCluster, connection: socket.socket, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    wait_until(lambda: find(connection, group).error_code == NONE, "there is a coordinator")
    wait_until(lambda: commit(connection, group, {(topic, 0): 7}, 1) == [NONE], "it has loaded")
    assert committed(connection, group, [(topic, 0)], 1) == {(topic, 0): 7}
    assert committed(connection, group, [(topic, 0)], 0) == {(topic, 0): -1}
    commit(connection, group, {(topic, 0): 9}, 0)
    assert committed(connection, group, [(topic, 0)], 1) == {(topic, 0): 7}


def test_what_is_not_there(over_zookeeper: MemberCluster, connection: socket.socket, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    places = [(topic, 0), (topic, 1), ("nowhere", 0)]
    found = [part for each in fetch_response(connection, group, places, 0).topics for part in each.partitions]
    assert [(each.committed_offset, each.error_code) for each in found] == [(-1, UNKNOWN)] * 3
    assert commit(connection, group, dict.fromkeys(places, 1), 0) == [NONE, UNKNOWN, UNKNOWN]
    assert over_zookeeper.names(f"/consumers/{group}/offsets") == [topic]


def test_a_damaged_offset_is_none(over_zookeeper: MemberCluster, connection: socket.socket, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.nodes.create(f"/consumers/{group}/offsets/{topic}/0", b"x", makepath=True)
    assert committed(connection, group, [(topic, 0)], 0) == {(topic, 0): -1}
    assert commit(connection, group, {(topic, 0): 4}, 0) == [NONE]
    assert committed(connection, group, [(topic, 0)], 0) == {(topic, 0): 4}


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\0b"])
def test_groups_that_are_no_part_of_a_path_are_refused(
    over_zookeeper: MemberCluster, connection: socket.socket, name: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    assert commit(connection, name, {(topic, 0): 4}, 0) == [ErrorCode.INVALID_GROUP_ID]
    (found,) = fetch_response(connection, name, [(topic, 0)], 0).topics[0].partitions
    assert found.error_code == ErrorCode.INVALID_GROUP_ID


def test_long_metadata_is_refused(over_zookeeper: MemberCluster, connection: socket.socket, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(connection, group, {(topic, 0): 4}, 0, metadata="x" * 5000) == [code]
    assert over_zookeeper.offsets(group, topic) == {}

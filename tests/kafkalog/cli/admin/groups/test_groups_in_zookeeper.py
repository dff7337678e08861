"""`kafkalog groups delete` and `reset-offsets` with `--zookeeper`, and the steps that delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.connector.offset_stores import write_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.deletion import GroupActiveError, delete_group, delete_topic, delete_topic_of_all
from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import Steps, Write
from tests.support.command import Ended, call
from tests.support.member import MemberCluster

Names = Callable[[], str]


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def commit(cluster: MemberCluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Leave what a group leaves that was stopped: offsets, and empty nodes of members and owners."""
    for number, offset in offsets.items():
        cluster.nodes.create(f"/consumers/{group}/offsets/{topic}/{number}", b"%d" % offset, makepath=True)
    cluster.nodes.ensure_path(f"/consumers/{group}/owners/{topic}")
    cluster.nodes.ensure_path(f"/consumers/{group}/ids")


def groups(cluster: MemberCluster, action: str, *words: str, check: int = 0) -> Ended:
    return call("groups", action, "--zookeeper", cluster.zookeeper, *words, check=check)


def reset(cluster: MemberCluster, group: str, *words: str, check: int = 0) -> Ended:
    return groups(cluster, "reset-offsets", "--group", group, *words, check=check)


@pytest.fixture
def member(over_zookeeper: MemberCluster, group: str) -> Iterator[tuple[str, ConsumerConnector]]:
    """Return a topic of ten records and a member that reads it."""
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 10)
    properties = {"zookeeper.connect": over_zookeeper.zookeeper, "group.id": group, "rebalance.backoff.ms": "200"}
    with ConsumerConnector(properties) as connector:
        connector.create_message_streams({topic: 1})
        yield topic, connector


# delete


def test_a_group_is_deleted_with_everything_below_it(over_zookeeper: MemberCluster, group: str) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    over_zookeeper.nodes.create(f"/consumers/{group}/of-others", b"x")
    deleted = groups(over_zookeeper, "delete", "--group", group)
    assert deleted.out == [f"Deleted all consumer group information for group '{group}' in zookeeper."]
    assert group not in over_zookeeper.names("/consumers")
    told = groups(over_zookeeper, "delete", "--group", group, check=1).err
    assert f"Delete for group '{group}' failed because group does not exist." in told


def test_a_name_is_never_taken_for_a_path(over_zookeeper: MemberCluster, group: str) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    told = groups(over_zookeeper, "delete", "--group", f"{group}/offsets", check=1).err
    assert "failed because group does not exist." in told
    assert over_zookeeper.offsets(group, "words") == {0: 5}


def test_of_several_groups_the_others_are_deleted(over_zookeeper: MemberCluster, group: str) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    ended = groups(over_zookeeper, "delete", "--group", "nobody", "--group", group, check=1)
    assert len(ended.out) == 1
    assert group not in over_zookeeper.names("/consumers")


def test_a_topic_of_a_group_is_deleted_and_the_last_one_takes_the_group(
    over_zookeeper: MemberCluster, group: str
) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    # Nobody has read it since the group was moved here: there is no node of its owners.
    over_zookeeper.nodes.create(f"/consumers/{group}/offsets/pages/0", b"7", makepath=True)
    words = ["--group", group, "--topic"]
    told = groups(over_zookeeper, "delete", *words, "others", check=1).err
    assert f"Delete for group '{group}' topic 'others' failed because the group has no such topic." in told
    assert groups(over_zookeeper, "delete", *words, "words").out == [
        f"Deleted consumer group information for group '{group}' topic 'words' in zookeeper."
    ]
    assert over_zookeeper.names(f"/consumers/{group}/offsets") == ["pages"]
    assert over_zookeeper.names(f"/consumers/{group}/owners") == []
    groups(over_zookeeper, "delete", *words, "pages")
    assert group not in over_zookeeper.names("/consumers")


def test_a_topic_of_all_groups_is_deleted_where_there_are_no_members(
    over_zookeeper: MemberCluster, group: str, member: tuple[str, ConsumerConnector]
) -> None:
    topic, _ = member
    commit(over_zookeeper, group, topic, {0: 5})
    commit(over_zookeeper, f"{group}-idle", topic, {0: 6})
    commit(over_zookeeper, f"{group}-idle", "others", {0: 6})
    ended = groups(over_zookeeper, "delete", "--topic", topic)
    assert ended.out == [
        f"Deleted consumer group information for all inactive consumer groups for topic '{topic}' in zookeeper."
    ]
    assert f"Group '{group}' was left alone because its consumers are still active." in ended.err
    assert over_zookeeper.offsets(group, topic) == {0: 5}
    assert over_zookeeper.names(f"/consumers/{group}-idle/offsets") == ["others"]


def test_groups_with_members_are_not_deleted(
    over_zookeeper: MemberCluster, group: str, member: tuple[str, ConsumerConnector]
) -> None:
    topic, connector = member
    for words in (["--group", group], ["--group", group, "--topic", topic]):
        told = groups(over_zookeeper, "delete", *words, check=1).err
        assert f"Delete for group '{group}'" in told
        assert "failed because its consumers are still active." in told
    assert over_zookeeper.owners(group, topic) == {0: f"{connector.consumer_id}-0"}
    assert over_zookeeper.names(f"/consumers/{group}/ids") == [connector.consumer_id]


def before(work: Steps[None], number: int, act: Callable[[], object]) -> Steps[None]:
    """Do something before the write of that number."""
    outcome: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = work.send(outcome) if error is None else work.throw(error)
        except StopIteration:
            return
        if isinstance(effect, Write):
            if not number:
                act()
            number -= 1
        outcome, error = None, None
        try:
            outcome = yield effect
        except Exception as failure:
            error = failure


@pytest.mark.parametrize("number", range(7))
def test_a_member_that_starts_meanwhile_keeps_its_nodes(over_zookeeper: MemberCluster, group: str, number: int) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    member, owner = f"{nodes.members(group)}/a", f"{nodes.owners(group, 'words')}/0"

    def begin() -> None:
        for path in (member, owner):
            over_zookeeper.nodes.create(path, b"a-0", ephemeral=True, makepath=True)

    with ZooKeeperSession(over_zookeeper.zookeeper) as session, pytest.raises(GroupActiveError):
        session.run(before(delete_group(group), number, begin))
    assert over_zookeeper.data(member) == "a-0"
    assert over_zookeeper.data(owner) == "a-0"
    for path in (member, owner):
        over_zookeeper.nodes.delete(path)


@pytest.mark.parametrize("number", range(7))
def test_a_reset_meanwhile_is_no_member(over_zookeeper: MemberCluster, group: str, number: int) -> None:
    commit(over_zookeeper, group, "words", {0: 5})
    with ZooKeeperSession(over_zookeeper.zookeeper) as session:
        reset_it = partial(session.run, write_offsets(group, {TopicPartition("words", 0): 3}))
        with ZooKeeperSession(over_zookeeper.zookeeper) as other:
            other.run(before(delete_group(group), number, reset_it))
    assert group not in over_zookeeper.names("/consumers")


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("what", ["group", "topic", "topic of all", "reset"])
def test_what_another_deletes_meanwhile_does_no_harm(
    over_zookeeper: MemberCluster, group: str, what: str, number: int
) -> None:
    commit(over_zookeeper, group, "words", {0: 5, 1: 6})
    commit(over_zookeeper, group, "pages", {0: 5})
    work: dict[str, Steps[Any]] = {
        "group": delete_group(group),
        "topic": delete_topic(group, "words"),
        "topic of all": delete_topic_of_all("words"),
        "reset": write_offsets(group, {TopicPartition("words", 0): 3, TopicPartition("words", 1): 4}),
    }
    delete_it = partial(over_zookeeper.nodes.delete, f"/consumers/{group}", recursive=True)
    with ZooKeeperSession(over_zookeeper.zookeeper) as session:
        session.run(before(work[what], number, delete_it))
    # What was written before the deletion is gone, and nothing else.
    assert over_zookeeper.offsets(group, "words").items() <= {0: 3, 1: 4}.items()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--zookeeper", "127.0.0.1:1"], "give --group or --all-groups, --topic, or both"),
        (["--bootstrap-server", "127.0.0.1:1"], "one of --group and --all-groups must say"),
        (["--bootstrap-server", "127.0.0.1:1", "--group", "g", "--topic", "t"], "--topic needs --zookeeper"),
    ],
)
def test_what_is_deleted_must_be_said(words: list[str], message: str) -> None:
    assert message in call("groups", "delete", *words, check=2).err


# reset-offsets


def test_offsets_are_reset_by_all_rules(over_zookeeper: MemberCluster, group: str, tmp_path: Path) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 20)
    commit(over_zookeeper, group, topic, {0: 5})
    shown = reset(over_zookeeper, group, "--topic", topic, "--to-latest")
    assert "nothing is changed without --execute" in shown.err
    assert over_zookeeper.offsets(group, topic) == {0: 5}
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,3\n{topic},1,4\n")
    for words, expected in (
        (["--topic", topic, "--to-current"], {0: 5, 1: 10}),
        (["--topic", f"{topic}:1", "--to-offset", "2"], {0: 5, 1: 2}),
        (["--all-topics", "--shift-by", "-3"], {0: 2, 1: 0}),
        (["--all-topics", "--to-latest"], {0: 10, 1: 10}),
        (["--from-file", str(plan)], {0: 3, 1: 4}),
        (["--all-topics", "--to-datetime", "2000-01-01T00:00:00.000"], {0: 0, 1: 0}),
        (["--all-topics", "--to-offset", "99"], {0: 10, 1: 10}),
        (["--all-topics", "--to-earliest"], {0: 0, 1: 0}),
        (["--all-topics", "--by-duration", "PT0S"], {0: 10, 1: 10}),
    ):
        reset(over_zookeeper, group, *words, "--execute")
        assert over_zookeeper.offsets(group, topic) == expected, words


def test_a_group_that_has_never_read_gets_offsets(over_zookeeper: MemberCluster, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 4)
    done = reset(over_zookeeper, group, "--topic", topic, "--to-latest", "--execute")
    assert done.out[1].split() == [group, topic, "0", "4"]
    assert over_zookeeper.offsets(group, topic) == {0: 4}


def test_groups_with_members_are_left_alone(
    over_zookeeper: MemberCluster, group: str, member: tuple[str, ConsumerConnector]
) -> None:
    topic, connector = member
    told = reset(over_zookeeper, group, "--topic", topic, "--to-latest", "--execute", check=1).err
    assert (
        f"Assignments can only be reset if the group '{group}' is inactive, but it has the members "
        f"{connector.consumer_id}." in told
    )
    assert over_zookeeper.offsets(group, topic) == {}


def test_a_name_that_zookeeper_cannot_have_is_refused(over_zookeeper: MemberCluster) -> None:
    told = reset(over_zookeeper, "a/b", "--all-topics", "--to-latest", "--execute", check=2).err
    assert "group.id=a/b: expected letters" in told

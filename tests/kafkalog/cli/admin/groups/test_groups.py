"""Tests of `kafkalog groups` against a real broker and real consumers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalog.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.command import Ended, call, lines, run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, Silence, metadata
from tests.support.waiting import wait_until

T2020 = 1_577_836_800_000
"""2020-01-01T00:00:00 in UTC; record n is n minutes later."""

Join = Callable[..., str]


@pytest.fixture(scope="module")
def bootstrap(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that does not wait for more members when a group begins."""
    with KafkalogBroker(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Three partitions with ten records each."""
    name = f"groups-{uuid.uuid4().hex[:8]}"
    call("topics", "create", "--bootstrap-server", bootstrap, "--topic", name, "--partitions", "3")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(name, b"x", partition=number % 3, timestamp=T2020 + number // 3 * 60_000)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def join(bootstrap: str, topic: str) -> Iterator[Join]:
    """Makes groups with one member that has all of the topic and has committed 4 in partition 0."""
    with ExitStack() as stack:

        def make(*, stays: bool = True, commits: bool = True, **properties: str) -> str:
            group = f"g-{uuid.uuid4().hex[:8]}"
            named = {key.replace("_", "."): value for key, value in properties.items()}
            consumer = Consumer(
                {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, **named}
            )
            stack.callback(consumer.close)
            consumer.subscribe([topic])

            def assigned() -> bool:
                consumer.poll(0.1)
                return bool(consumer.assignment())

            wait_until(assigned, f"{group} has partitions")
            if commits:
                consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
            if not stays:
                consumer.close()
            return group

        yield make


@pytest.fixture
def groups(bootstrap: str) -> Callable[..., Ended]:
    def command(action: str, *words: str, check: int = 0) -> Ended:
        return call("groups", action, "--bootstrap-server", bootstrap, *words, check=check)

    return command


Groups = Callable[..., Ended]


def offsets(groups: Groups, group: str) -> dict[int, int]:
    """Return the offsets that the group has committed, by partition."""
    found = [json.loads(line) for line in groups("describe", "--group", group, "--json").out]
    return {row["partition"]: row["current_offset"] for row in found if row["current_offset"] is not None}


def test_the_table_and_its_json(groups: Groups, join: Join, topic: str) -> None:
    group = join(client_id="me", group_instance_id="i-1")
    head, *table = [line.split() for line in groups("describe", "--group", group).out if line]
    assert " ".join(head) == "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    member = table[0][6]
    assert member.startswith("i-1-")
    assert table == [
        [group, topic, str(number), *current, member, "/127.0.0.1", "me"]
        for number, current in enumerate([["4", "10", "6"], ["-", "10", "-"], ["-", "10", "-"]])
    ]
    found = json.loads(groups("describe", "--group", group, "--json").out[0])
    expected = {
        "group": group,
        "topic": topic,
        "partition": 0,
        "leader_epoch": None,
        "current_offset": 4,
        "log_end_offset": 10,
        "lag": 6,
        "consumer_id": member,
        "host": "/127.0.0.1",
        "client_id": "me",
    }
    assert found == expected
    found = json.loads(groups("describe", "--group", group, "--members", "--json").out[0])
    assert (found["group_instance_id"], found["current_assignment"]) == ("i-1", {topic: [0, 1, 2]})
    found = json.loads(groups("describe", "--group", group, "--state", "--json").out[0])
    assert (found["state"], found["members"], found["assignment_strategy"]) == ("Stable", 1, "range")
    listed = [json.loads(line) for line in groups("list", "--json").out]
    assert {"group": group, "type": "Classic", "state": "Stable"} in listed


def test_a_group_that_is_not_there(groups: Groups) -> None:
    done = groups("describe", "--group", "nobody", check=1)
    assert done == Ended(1, [], "kafkalog: Consumer group 'nobody' does not exist.\n")
    assert groups("delete", "--group", "nobody", check=1).err == (
        "kafkalog: Group 'nobody' could not be deleted: The group does not exist.\n"
    )
    done = groups("delete-offsets", "--group", "nobody", "--topic", "t:0", check=1)
    assert "does not exist" in done.err


def test_a_group_that_has_committed_nothing(groups: Groups, join: Join) -> None:
    group = join(stays=False, commits=False)
    done = groups("describe", "--group", group)
    assert done.out == []
    assert done.err.splitlines() == [
        f"kafkalog: Consumer group '{group}' has no active members.",
        f"kafkalog: Consumer group '{group}' has committed no offsets, and no partitions are assigned.",
    ]


def test_a_group_in_use_is_left_alone(groups: Groups, join: Join, topic: str) -> None:
    group = join()
    done = groups("reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute", check=1)
    assert done.out == []
    assert f"can only be reset if the group '{group}' is inactive, but the current state is Stable." in done.err
    done = groups("delete-offsets", "--group", group, "--topic", f"{topic}:0", check=1)
    assert done.out[1].split(maxsplit=2) == [topic, "0", "Error: The group is subscribed to the topic."]
    done = groups("delete", "--group", group, check=1)
    assert done.err == f"kafkalog: Group '{group}' could not be deleted: The group still has members.\n"
    assert offsets(groups, group) == {0: 4}


def test_reset_by_every_rule(groups: Groups, join: Join, topic: str) -> None:
    group = join(stays=False)

    def reset(*rule: str) -> str:
        return groups("reset-offsets", "--group", group, *rule, "--execute").err

    assert reset("--topic", topic, "--to-earliest") == ""
    assert offsets(groups, group) == {0: 0, 1: 0, 2: 0}
    assert reset("--topic", f"{topic}:1,2", "--to-latest") == ""
    assert offsets(groups, group) == {0: 0, 1: 10, 2: 10}
    warnings = reset("--all-topics", "--shift-by", "-3")
    assert warnings == f"kafkalog: new offset -3 of partition {topic}-0 is lower than the earliest: it becomes 0\n"
    assert offsets(groups, group) == {0: 0, 1: 7, 2: 7}
    warnings = reset("--topic", f"{topic}:0", "--to-offset", "11")
    assert warnings == f"kafkalog: new offset 11 of partition {topic}-0 is higher than the latest: it becomes 10\n"
    reset("--topic", topic, "--to-datetime", "2020-01-01T00:03:00.000")
    assert offsets(groups, group) == {0: 3, 1: 3, 2: 3}
    reset("--topic", topic, "--to-datetime", "2020-01-01T01:03:00.001+01:00")
    assert offsets(groups, group) == {0: 4, 1: 4, 2: 4}
    assert reset("--topic", f"{topic}:2", "--by-duration", "PT1H") == (
        f"kafkalog: no record of partition {topic}-2 is that late: its offset becomes the latest, 10\n"
    )
    reset("--all-topics", "--to-current")
    assert offsets(groups, group) == {0: 4, 1: 4, 2: 10}


def test_a_plan_out_and_in(groups: Groups, join: Join, topic: str, tmp_path: Path) -> None:
    group, other = join(stays=False), join(stays=False)
    both = "--group", group, "--group", other
    done = groups("reset-offsets", *both, "--topic", f"{topic}:0,1", "--to-offset", "6", "--export")
    assert done.out == [f"{each},{topic},{number},6" for each in (group, other) for number in (0, 1)]
    assert done.err == "kafkalog: nothing is changed without --execute\n"
    assert offsets(groups, group) == {0: 4}
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join([*done.out, ""]).replace(f"{other},{topic},1,6", f"{other},{topic},2,60"))
    done = groups("reset-offsets", *both, "--from-file", str(plan), "--execute")
    assert "new offset 60" in done.err
    assert offsets(groups, group) == {0: 6, 1: 6}
    assert offsets(groups, other) == {0: 6, 2: 10}
    plan.write_text(f"{topic},0,1\n")
    groups("reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    assert offsets(groups, group) == {0: 1, 1: 6}
    plan.write_text(f"{other},{topic},0,1\n")
    done = groups("reset-offsets", "--group", group, "--from-file", str(plan), "--execute", check=1)
    assert done.err == f"kafkalog: No reset plan for group {group} found\n"
    plan.write_text(f"{topic},zero,1\n")
    done = groups("reset-offsets", "--group", group, "--from-file", str(plan), "--execute", check=2)
    assert "line 1: partition 'zero'" in done.err


def test_what_was_reset_before_an_error_is_told(groups: Groups, topic: str, tmp_path: Path) -> None:
    first, second, third = (f"g-{number}-{uuid.uuid4().hex[:8]}" for number in range(3))
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{first},{topic},0,1\n{second},{topic},0,2\n{third},no-{topic},0,3\n")
    words = [word for group in (first, second, third) for word in ("--group", group)]
    done = groups("reset-offsets", *words, "--from-file", str(plan), "--execute", "--json", check=1)
    assert [(row["group"], row["new_offset"]) for row in map(json.loads, done.out)] == [(first, 1), (second, 2)]
    assert f"no-{topic}" in done.err
    assert offsets(groups, first) == {0: 1}
    done = groups("reset-offsets", *words, "--from-file", str(plan), check=1)
    assert done.out == []


def test_a_reset_makes_a_group(groups: Groups, topic: str) -> None:
    group = f"g-{uuid.uuid4().hex[:8]}"
    groups("reset-offsets", "--group", group, "--topic", topic, "--to-offset", "5", "--execute")
    assert offsets(groups, group) == {0: 5, 1: 5, 2: 5}
    assert group in groups("list").out
    done = groups("delete", "--group", group)
    assert done.out == [f"Deletion of requested consumer groups ('{group}') was successful."]
    assert group not in groups("list").out


def test_offsets_are_deleted(groups: Groups, join: Join, topic: str) -> None:
    group = join(stays=False)
    groups("reset-offsets", "--group", group, "--topic", topic, "--to-offset", "5", "--execute")
    done = groups("delete-offsets", "--group", group, "--topic", f"{topic}:0,2")
    assert done.out[0] == f"Request succeed for deleting offsets with topic {topic}:0,2 group {group}"
    assert [line.split() for line in done.out[2:4]] == [[topic, "0", "Successful"], [topic, "2", "Successful"]]
    assert offsets(groups, group) == {1: 5}


def test_members_are_removed(groups: Groups, join: Join) -> None:
    group = join(group_instance_id="gone")
    done = groups("remove-members", "--group", group, "--instance-id", "gone", "--member", "nobody", check=1)
    assert done.out == ["Removed member gone."]
    assert done.err == "kafkalog: member nobody: The group has no member with this id.\n"
    assert groups("describe", "--group", group, "--members").out == []
    said = groups("remove-members", "--group", group, "--all-members").err
    assert said == f"kafkalog: Consumer group '{group}' has no active members.\n"
    said = groups("remove-members", "--group", "nobody", "--all-members", check=1).err
    assert said == "kafkalog: group nobody: The group does not exist.\n"


def test_filters_of_list(groups: Groups, join: Join) -> None:
    active, left = join(), join(stays=False)
    stable = [line.split() for line in groups("list", "--state", "stable", "--type").out]
    assert [active, "Classic", "Stable"] in stable
    assert left not in [row[0] for row in stable if row]
    assert [left, "Empty"] in [line.split() for line in groups("list", "--state", "Empty").out]
    assert groups("list", "--state", "Asleep", check=2).err.startswith("kafkalog: --state Asleep: expected some of")


def test_wrong_usage(groups: Groups) -> None:
    assert "--group" in groups("describe", check=2).err
    assert "not allowed with" in groups("describe", "--group", "g", "--members", "--state", check=2).err
    assert "--all-topics and --topic" in groups("reset-offsets", "--group", "g", "--to-latest", check=2).err
    assert "required" in groups("reset-offsets", "--group", "g", "--topic", "t", check=2).err
    wrong = groups("reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "now", check=2)
    assert "'now' is no point in time" in wrong.err
    assert "--topic t:x" in groups("delete-offsets", "--group", "g", "--topic", "t:x", check=2).err
    assert "--all-members" in groups("remove-members", "--group", "g", check=2).err


def test_as_a_process(bootstrap: str) -> None:
    done = run("groups", "describe", "--bootstrap-server", bootstrap, "--group", "nobody", check=1)
    assert lines(done) == []
    assert done.stderr == b"kafkalog: Consumer group 'nobody' does not exist.\n"


def test_a_broker_that_does_not_answer_hides_no_groups_of_others(tmp_path: Path) -> None:
    """Kafka's tool lists nothing then (`ConsumerGroupCommand.listConsumerGroups`)."""
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=1500\n")
    silent = ScriptedBroker({ListGroupsRequest: lambda _: Silence()})
    rows = [ListedGroup(group_id=name, protocol_type="consumer") for name in ("b", "a")]
    answering = ScriptedBroker({ListGroupsRequest: lambda _: ListGroupsResponse(groups=rows)})
    with silent, answering:
        for broker in (silent, answering):
            broker.handlers[MetadataRequest] = lambda _: metadata({1: silent, 2: answering}, {})
        where = ("--bootstrap-server", answering.address, "--command-config", str(quick))
        found = call("groups", "list", *where, check=1)
        assert found.out == ["a", "b"]
        assert found.err.startswith("kafkalog: groups whose coordinator is broker 1 are not listed: ")
        answering.handlers[ListGroupsRequest] = lambda _: Silence()
        assert call("groups", "list", *where, check=1).out == []

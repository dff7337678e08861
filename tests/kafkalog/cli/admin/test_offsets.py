"""`kafkalog offsets`, and `kafkalog groups --zookeeper`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper.groups import OffsetFileError, offset_lines, parse_offset_lines
from kafkalog.client.zookeeper.migration import Outcome, plan_moves
from tests.support.command import call, start
from tests.support.member import MemberCluster


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def commit(cluster: MemberCluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    for number, offset in offsets.items():
        cluster.nodes.create(f"/consumers/{group}/offsets/{topic}/{number}", b"%d" % offset, makepath=True)


def in_kafka(cluster: MemberCluster, group: str) -> dict[int, int]:
    described = call("groups", "describe", "--bootstrap-server", cluster.bootstrap, "--group", group, "--json",
                     check=None)  # fmt: skip
    rows = [json.loads(line) for line in described.out]
    return {row["partition"]: row["current_offset"] for row in rows}


def migrate(cluster: MemberCluster, group: str, to: str, *words: str, check: int = 0) -> list[list[str]]:
    ended = call("offsets", "migrate", "--zookeeper", cluster.zookeeper, "--group", group, "--to", to, *words,
                 check=check)  # fmt: skip
    return [line.split(maxsplit=5) for line in ended.out[1:] if line]


def test_offsets_move_to_kafka_and_back(over_zookeeper: MemberCluster, group: str) -> None:
    topic = over_zookeeper.new_topic(3)
    over_zookeeper.write(topic, 3, 0, 30)
    commit(over_zookeeper, group, topic, {0: 5, 1: 7})
    assert migrate(over_zookeeper, group, "kafka") == [
        [group, topic, "0", "5", "-", "to be moved to kafka"],
        [group, topic, "1", "7", "-", "to be moved to kafka"],
    ]
    assert in_kafka(over_zookeeper, group) == {}
    migrate(over_zookeeper, group, "kafka", "--execute")
    assert in_kafka(over_zookeeper, group) == {0: 5, 1: 7}
    assert over_zookeeper.offsets(group, topic) == {0: 5, 1: 7}
    over_zookeeper.nodes.delete(f"/consumers/{group}", recursive=True)
    migrate(over_zookeeper, group, "zookeeper", "--execute")
    assert over_zookeeper.offsets(group, topic) == {0: 5, 1: 7}


def test_what_is_not_moved_is_told(over_zookeeper: MemberCluster, group: str) -> None:
    topic = over_zookeeper.new_topic(3)
    commit(over_zookeeper, group, topic, {0: 5, 1: 7, 2: 8, 3: 1})
    call("groups", "reset-offsets", "--bootstrap-server", over_zookeeper.bootstrap, "--group", group, "--topic",
         topic, "--to-earliest", "--execute")  # fmt: skip
    over_zookeeper.write(topic, 3, 0, 30)
    call("groups", "reset-offsets", "--bootstrap-server", over_zookeeper.bootstrap, "--group", group, "--topic",
         f"{topic}:1,2", "--to-offset", "8", "--execute")  # fmt: skip
    rows = migrate(over_zookeeper, group, "kafka", "--execute", check=1)
    assert [row[2:] for row in rows] == [
        ["0", "5", "0", "moved to kafka"],
        ["1", "7", "8", "kept: the target is ahead"],
        ["2", "8", "8", "same"],
        ["3", "1", "-", "skipped: no such partition"],
    ]
    assert in_kafka(over_zookeeper, group) == {0: 5, 1: 8, 2: 8}
    migrate(over_zookeeper, group, "kafka", "--execute", "--overwrite", check=1)
    assert in_kafka(over_zookeeper, group) == {0: 5, 1: 7, 2: 8}


def test_groups_with_members_are_refused(over_zookeeper: MemberCluster, group: str, tmp_path: Path) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 10)
    commit(over_zookeeper, group, topic, {0: 5})
    properties = {"zookeeper.connect": over_zookeeper.zookeeper, "group.id": group, "rebalance.backoff.ms": "200"}
    with ConsumerConnector(properties) as member:
        member.create_message_streams({topic: 1})
        words = ["offsets", "migrate", "--zookeeper", over_zookeeper.zookeeper, "--group", group, "--to", "kafka"]
        assert f"has members ({member.consumer_id})" in call(*words, "--execute", check=1).err
        file = tmp_path / "offsets"
        file.write_text(f"/consumers/{group}/offsets/{topic}/0:1\n")
        words = ["offsets", "import", "--zookeeper", over_zookeeper.zookeeper, "--input-file", str(file)]
        assert "stop them first" in call(*words, check=2).err
        described = call("groups", "describe", "--zookeeper", over_zookeeper.zookeeper, "--group", group)
        assert described.out[1].split() == [group, topic, "0", "5", "10", "5", f"{member.consumer_id}-0"]
    assert over_zookeeper.offsets(group, topic) == {0: 5}


def test_a_group_whose_name_zookeeper_cannot_have_does_not_end_the_move_of_all(
    over_zookeeper: MemberCluster, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    with GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": over_zookeeper.bootstrap})) as admin:
        for name in (f"{group} of words", group):
            admin.alter_offsets(name, {TopicPartition(topic, 0): 0})
    where = ["--zookeeper", over_zookeeper.zookeeper]
    ended = call("offsets", "migrate", *where, "--all-groups", "--to", "zookeeper", check=1)
    assert f"group.id={group} of words" in ended.err
    assert any(line.startswith(f"{group} ") and "to be moved" in line for line in ended.out)


def test_groups_are_listed_and_described(over_zookeeper: MemberCluster, group: str) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 20)
    commit(over_zookeeper, group, topic, {0: 4, 1: 10, 5: 1})
    where = ["--zookeeper", over_zookeeper.zookeeper]
    assert group in call("groups", "list", *where).out
    described = call("groups", "describe", *where, "--group", group, "--json")
    rows = [json.loads(line) for line in described.out]
    assert [(row["partition"], row["lag"], row["owner"]) for row in rows] == [
        (0, 6, None),
        (1, 0, None),
        (5, None, None),
    ]
    assert f"Consumer group '{group}' has no active members." in described.err
    assert "does not exist in ZooKeeper" in call("groups", "describe", *where, "--group", "nobody", check=1).err
    assert "--members" in call("groups", "describe", *where, "--group", group, "--members", check=2).err


def test_offsets_are_exported_and_imported(over_zookeeper: MemberCluster, group: str, tmp_path: Path) -> None:
    commit(over_zookeeper, group, "words", {0: 4, 10: 1})
    file = tmp_path / "offsets"
    words = ["--zookeeper", over_zookeeper.zookeeper]
    exported = call("offsets", "export", *words, "--group", group).out
    assert exported == [f"/consumers/{group}/offsets/words/0:4", f"/consumers/{group}/offsets/words/10:1"]
    call("offsets", "export", *words, "--group", group, "--output-file", str(file))
    over_zookeeper.nodes.delete(f"/consumers/{group}", recursive=True)
    assert "does not exist" in call("offsets", "export", *words, "--group", group, check=1).err
    assert call("offsets", "import", *words, "--input-file", str(file)).out == [
        "Wrote 2 offsets of 1 groups to ZooKeeper."
    ]
    assert over_zookeeper.offsets(group, "words") == {0: 4, 10: 1}


def test_files_of_offsets() -> None:
    offsets = {"b": {TopicPartition("t", 10): 1, TopicPartition("t", 9): 2}, "a": {TopicPartition("t", 0): 0}}
    lines = offset_lines(offsets)
    assert lines == ["/consumers/a/offsets/t/0:0", "/consumers/b/offsets/t/9:2", "/consumers/b/offsets/t/10:1"]
    assert parse_offset_lines([*lines, "", *lines]) == offsets


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "/consumers/a/offsets/t/0",
        "/consumers/a/offsets/t/0:-1",
        "/consumers/a/offsets/t/x:1",
        "/consumers/a/offsets/t/0:9223372036854775808",
        "/consumers/a/b/offsets/t/0:1",
        "/consumers/g/offsets/t/0:2",
    ],
)
def test_lines_that_cannot_be_read_are_named(line: str) -> None:
    with pytest.raises(OffsetFileError, match="line 2"):
        parse_offset_lines(["/consumers/g/offsets/t/0:1", line])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("piped", [False, True])
def test_files_are_utf_8_in_every_locale(tmp_path: Path, piped: bool) -> None:
    file = tmp_path / "offsets"
    file.write_bytes("/consumers/é/offsets/t/0".encode())
    words = ("offsets", "import", "--zookeeper", "127.0.0.1:1", "--input-file", "-" if piped else str(file))
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    with start(*words, environment=locale) as process:
        _, err = process.communicate(file.read_bytes() if piped else None, timeout=60)
    assert process.returncode == 2
    assert "line 1: '/consumers/\\xe9/offsets/t/0'" in err.decode()


def test_a_plan_of_moves() -> None:
    places = [TopicPartition("t", number) for number in range(5)]
    source = dict(zip(places, [5, 5, 5, 5, 5], strict=True))
    target = {places[1]: 5, places[2]: 6, places[3]: 4}
    outcomes = [each.outcome for each in plan_moves(source, target, places[:4])]
    assert outcomes == [Outcome.MOVED, Outcome.SAME, Outcome.AHEAD, Outcome.MOVED, Outcome.GONE]
    assert plan_moves(source, target, places[:4], overwrite=True)[2].outcome is Outcome.MOVED

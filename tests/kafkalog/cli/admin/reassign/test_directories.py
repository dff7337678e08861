"""Test what `kafkalog reassign` does, and what it says, of replicas that move between log directories."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog.cli.admin.reassign.directories import DirectoryMove, directory_moves
from kafkalog.cli.admin.reassign.throttles import ALTER_DIRS_RATE
from kafkalog.client.admin import Admin, ConfigResource, NewTopic
from kafkalog.client.admin.replicas.replica_admin import LogDirInfo, ReplicaInfo, ReplicaOnBroker
from kafkalog.client.types import TopicPartition
from tests.support.command import Ended, call
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, produce

WORDS = TopicPartition("words", 3)
HERE, FUTURE = ReplicaInfo(10, 0, False), ReplicaInfo(4, 6, True)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (
            {"/a": HERE, "/b": FUTURE},
            DirectoryMove("Reassignment of replica words-3-1 is still in progress.", is_active=True),
        ),
        (
            {"/a": HERE, "/c": FUTURE},
            DirectoryMove("Partition words-3 on broker 1 is being moved to log dir /c instead of /b.", is_active=True),
        ),
        ({"/b": HERE}, DirectoryMove("Reassignment of replica words-3-1 completed successfully.", is_done=True)),
        ({"/a": HERE}, DirectoryMove("Partition words-3 on broker 1 is not being moved from log dir /a to /b.")),
        ({}, DirectoryMove("Partition words-3 cannot be found in any live log directory on broker 1.")),
    ],
)
def test_the_state_of_a_replica(found: dict[str, ReplicaInfo], state: DirectoryMove) -> None:
    directories = {path: LogDirInfo(None, {WORDS: replica}, -1, -1) for path, replica in found.items()}
    assert directory_moves({ReplicaOnBroker(WORDS, 1): "/b"}, {1: directories}) == [state]


def test_replicas_are_ordered_by_broker() -> None:
    wanted = {
        ReplicaOnBroker(TopicPartition(topic, 0), broker): "/a" for topic, broker in (("b", 2), ("a", 2), ("c", 1))
    }
    told = [each.told for each in directory_moves(wanted, {})]
    assert [line.split()[1] for line in told] == ["c-0", "a-0", "b-0"]


class OneBroker:
    """A broker with two log directories, and a file that moves the replica of a partition between them."""

    def __init__(self, broker: KafkalogBroker, admin: Admin, file: Path) -> None:
        self.admin = admin
        self._server = ("--bootstrap-server", broker.bootstrap)
        self._file = file
        admin.create_topics([NewTopic(WORDS.topic, WORDS.partition + 1, 1)])
        with broker.connect() as sock:
            for _ in range(30):
                records = batch([b"x" * 1000] * 10)
                assert produce(sock, WORDS.topic, records, partition=WORDS.partition).error_code == 0

    def places(self) -> dict[str, bool]:
        """Return whether the replica moves to a directory, for each directory that has it."""
        (found,) = self.admin.replicas.describe_log_dirs().values()
        return {path: info.replicas[WORDS].is_future for path, info in found.items() if WORDS in info.replicas}

    def reassign(self, action: str, path: str, *words: str, check: int = 0, replicas: tuple[int, ...] = (0,)) -> Ended:
        entry = {
            "topic": WORDS.topic,
            "partition": WORDS.partition,
            "replicas": replicas,
            "log_dirs": [path] * len(replicas),
        }
        self._file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return call("reassign", action, *self._server, "--reassignment-json-file", str(self._file), *words, check=check)


@pytest.fixture
def one_broker(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> Iterator[OneBroker]:
    broker = start_broker({"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"})
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        yield OneBroker(broker, admin, tmp_path / "moves.json")


def test_a_directory_that_the_broker_refuses(one_broker: OneBroker, tmp_path: Path) -> None:
    path = str(tmp_path / "three")
    (before,) = one_broker.places()
    ended = one_broker.reassign("execute", path, check=1)
    (line,) = ended.err.splitlines()
    assert line.startswith(f"kafkalog: Failed to move words-3 on broker 0 to {path}: ")
    assert ended.out[-1] == f"Successfully started partition reassignment for {WORDS}"
    assert one_broker.places() == {before: False}


def test_a_directory_of_a_broker_that_is_not_alive(one_broker: OneBroker, tmp_path: Path) -> None:
    ended = one_broker.reassign("execute", str(tmp_path / "one"), replicas=(0, 7), check=1)
    assert f"Failed to move words-3 on broker 7 to {tmp_path / 'one'}: the broker is not alive" in ended.err


def test_a_move_between_directories_is_cancelled(one_broker: OneBroker, tmp_path: Path) -> None:
    (before,) = one_broker.places()
    (target,) = {str(tmp_path / name) for name in ("one", "two")} - {before}
    begun = one_broker.reassign("execute", target, "--replica-alter-log-dirs-throttle", "1")
    assert begun.out[-2:] == [
        f"Successfully started partition reassignment for {WORDS}",
        f"Successfully started moving log directory to {target} for replica {WORDS} with broker 0",
    ]
    assert one_broker.places() == {before: False, target: True}
    ended = one_broker.reassign("cancel", target)
    assert ended.out[:2] == [
        "None of the specified partition reassignments are active.",
        f"Successfully cancelled the move of words-3 on broker 0 to {target}",
    ]
    assert one_broker.places() == {before: False}
    (entries,) = one_broker.admin.describe_configs([ConfigResource.broker(0)], [ALTER_DIRS_RATE]).values()
    assert entries[ALTER_DIRS_RATE].is_default, "its throttle is removed, too"
    again = one_broker.reassign("cancel", target)
    assert again.out[1] == "None of the specified partition moves are active."

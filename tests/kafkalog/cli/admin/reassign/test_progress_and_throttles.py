"""Test what is computed about a reassignment: bytes and time that are left, and which replicas are throttled."""

from __future__ import annotations

from kafkalog.cli.admin.reassign.progress import Progress, duration, progress_of, size, told
from kafkalog.cli.admin.reassign.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS, involved, throttled
from kafkalog.client.admin.replicas.replica_admin import LogDirInfo, Reassignment, ReplicaInfo
from kafkalog.client.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def directory(**sizes: int) -> LogDirInfo:
    replicas = {TopicPartition("t", int(name[1:])): ReplicaInfo(count, 0, False) for name, count in sizes.items()}
    return LogDirInfo(None, replicas, -1, -1)


def test_bytes_left_are_those_that_new_replicas_lack() -> None:
    moving = {T0: Reassignment((1, 2, 3), (2, 3), (1,)), T1: Reassignment((1, 2), (2,), ())}
    directories = {1: {"/a": directory(p0=1000), "/b": directory(p1=500)}, 2: {"/a": directory(p0=400, p1=600)}, 3: {}}
    assert progress_of(moving, directories, 5.0) == Progress(2, 600 + 1000 + 0, 5.0)
    assert progress_of({}, directories, 5.0) == Progress(0, 0, 5.0)


def test_progress_is_told_with_the_time_that_is_left() -> None:
    first, last = Progress(3, 10 << 20, 0.0), Progress(2, 5 << 20, 10.0)
    assert told(first, first) == "3 partitions, 10.0 MiB left"
    assert told(first, last) == "2 partitions, 5.0 MiB left, 512.0 KiB/s, about 10 s"
    assert [size(count) for count in (0, 1023, 1536, 1 << 50)] == ["0 B", "1023 B", "1.5 KiB", "1024.0 TiB"]
    assert [duration(count) for count in (0.4, 61, 7260)] == ["0 s", "1 min 1 s", "2 h 1 min"]


def test_sources_are_throttled_as_leaders_and_destinations_as_followers() -> None:
    moves = {T0: ((1, 2), (2, 3)), T1: ((1, 2), (2, 1)), TopicPartition("u", 4): ((5,), (6,))}
    assert throttled(moves) == {
        "t": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
        "u": {LEADER_REPLICAS: "4:5", FOLLOWER_REPLICAS: "4:6"},
    }
    assert involved(moves) == {1, 2, 3, 5, 6}

"""Test `kafkalog mirror status`, and the metrics of a mirror."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.request import urlopen

import pytest

from kafkalog.client import offsets as client_offsets
from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.cluster import Cluster
from kafkalog.client.offsets import Answers
from kafkalog.client.types import TopicPartition
from kafkalog.mirror import log_ends, status
from kafkalog.mirror.internal_topics.stored import read_marks
from kafkalog.mirror.metrics import MetricsEndpoint
from kafkalog.protocol.errors import GroupAuthorizationFailedError, LeaderNotAvailableError
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.housekeeping.support import ON, commit
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call
from tests.support.waiting import wait_until


def test_the_lag_of_partitions_and_groups(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, group = f"words-{alias}", f"readers-{alias}"
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(10))
    commit(clusters.source, group, topic, 4)
    words = ["mirror", "status", "--source", clusters.source, "--target", clusters.target, "--source-alias", alias]
    words += ["--topics", topic]
    before = [line.split() for line in call(*words).out]
    assert [topic, "0", "-", "10", "-"] in before
    mirror = start_mirror(topic, groups=group, **ON)
    read_all(clusters.target, f"{alias}.{topic}", 10)
    # The target has the records a moment before the mirror knows it.
    wait_until(lambda: mirror.progress.partitions()[TopicPartition(topic, 0)].lag == 0, "the mirror has all")
    wait_until(lambda: (group, TopicPartition(topic, 0)) in mirror.progress.groups(), "the group was looked at")
    with MetricsEndpoint("127.0.0.1:0", mirror.progress) as endpoint:
        with urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=30) as answer:
            metrics = answer.read().decode().splitlines()
        where = f'partition="0",topic="{topic}"'
        assert f"kafkalog_mirror_records_total{{{where}}} 10.0" in metrics
        assert f"kafkalog_mirror_lag{{{where}}} 0.0" in metrics
        assert f'kafkalog_mirror_group_lag{{group="{group}",{where}}} 6.0' in metrics
        assert "kafkalog_mirror_restarts_total 0.0" in metrics
    wait_until(lambda: "readers" in "".join(call(*words).out), "the checkpoint is there")
    wait_until(lambda: 4 in read_marks(mirror.settings).values(), "the position is in the target")
    mirror.stop()
    commit(clusters.target, group, f"{alias}.{topic}", 7)
    write(clusters.source, topic, range(10, 13))
    commit(clusters.source, group, topic, 5)
    rows = [json.loads(line) for line in call(*words, "--json").out]
    assert {"topic": topic, "partition": 0, "mirrored": 10, "end": 13, "lag": 3} in rows
    (found,) = (row for row in rows if row.get("group") == group)
    names = ("target_topic", "translated", "target_offset", "in_target", "ahead", "lag")
    assert [found[name] for name in names] == [f"{alias}.{topic}", 4, 4, 7, 3, 1]


@pytest.mark.parametrize("offsets", ["keep", "translate"])
def test_what_is_not_known_of_one_partition_or_group_does_not_hide_the_others(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    offsets: str,
) -> None:
    topic, groups = f"words-{alias}", [f"readers-{alias}", f"writers-{alias}"]
    make(clusters.source, topic, 2)
    for number in (0, 1):
        write(clusters.source, topic, range(10), number)
    for group in groups:
        commit(clusters.source, group, topic, 4)
    mirror = start_mirror(topic, groups=",".join(groups), replication_offsets=offsets, **ON)
    read_all(clusters.target, f"{alias}.{topic}", 20)
    wait_until(lambda: len(read_marks(mirror.settings)) == 2, "the positions are in the target")
    mirror.stop()
    ask_leaders, fetch_offsets = client_offsets.ask_leaders, GroupAdmin.offsets_each

    def leaderless(cluster: Cluster, asked: dict[TopicPartition, int], *more: Any) -> Answers:
        return {
            tp: LeaderNotAvailableError() if tp.partition == 1 else answer
            for tp, answer in ask_leaders(cluster, asked, *more).items()
        }

    def refusing(admin: GroupAdmin, names: Iterable[str], **more: Any) -> Any:
        return fetch_offsets(admin, names, **more) | {groups[0]: GroupAuthorizationFailedError("not this one")}

    monkeypatch.setattr(client_offsets, "ask_leaders", leaderless)
    monkeypatch.setattr(log_ends, "PATIENCE_S", 0.1)
    monkeypatch.setattr(GroupAdmin, "offsets_each", refusing)
    with Admin(clusters.client("source")) as source, Admin(clusters.client("target")) as target:
        ends = {
            each.partition.partition: (each.next_offset, each.end, each.lag)
            for each in status.partition_status(mirror.settings, source, target)
        }
        assert ends == {0: (10, 10, 0), 1: (None if offsets == "keep" else 10, None, None)}
        found = {
            each.group: (each.upstream, each.offset) for each in status.group_status(mirror.settings, source, target)
        }
    assert found == {groups[0]: (4, None), groups[1]: (4, 4)}
    assert f"the end of {topic}-1 in the source is not known" in caplog.text
    assert f"the positions of group {groups[0]} are not known" in caplog.text


def test_an_address_for_metrics_that_cannot_be_is_named() -> None:
    words = ("mirror", "start", "--source", "a:1", "--target", "b:1", "--metrics-listener", "nowhere")
    assert "nowhere" in call(*words, check=2).err

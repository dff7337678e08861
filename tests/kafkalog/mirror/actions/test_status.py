"""Test `kafkalog mirror status`, and the metrics of a mirror."""

from __future__ import annotations

import json
from urllib.request import urlopen

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.stored import read_marks
from kafkalog.mirror.metrics import MetricsEndpoint
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.housekeeping.test_checkpoints import ON, commit
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


def test_an_address_for_metrics_that_cannot_be_is_named() -> None:
    words = ("mirror", "start", "--source", "a:1", "--target", "b:1", "--metrics-listener", "nowhere")
    assert "nowhere" in call(*words, check=2).err

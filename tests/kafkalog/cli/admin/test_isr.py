"""Tests of `kafkalog isr why`. Those with several brokers are in `tests/broker/cli/test_cluster.py`."""

from __future__ import annotations

import json

import pytest

from kafkalog.client.admin.admin import Admin
from kafkalog.client.admin.replicas.explanations import ExplainedPartition, FollowerPosition, PartitionChange
from kafkalog.client.admin.replicas.replica_admin import ReplicaAdmin
from kafkalog.client.admin.topics import NewTopic
from kafkalog.client.types import TopicPartition
from peers import require
from peers.brokers import kafka
from tests.support.command import call

HOUR_MS = 3_600_000
FOUND = ExplainedPartition(
    partition=TopicPartition("some-words", 3),
    leader=2,
    leader_epoch=7,
    replicas=(1, 2, 3),
    isr=(2, 3),
    log_end_offset=100,
    followers=[FollowerPosition(1, 40, 60, 12_340, 11_000), FollowerPosition(3, 100, 0, 0, 120)],
    silence=None,
    controller=3,
    controller_epoch=5,
    controller_since_ms=HOUR_MS,
    known_since_ms=HOUR_MS,
    changes=[PartitionChange(2 * HOUR_MS, 5, "isr [1, 2, 3] -> [2, 3]", "broker 2 asked for it")],
)


def told(found: ExplainedPartition, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[str]:
    monkeypatch.setattr(ReplicaAdmin, "explain", lambda self, partition: found)
    return call("isr", "why", "some-words-3", "--bootstrap-server", "127.0.0.1:1", *more).out


def test_what_is_true_now_comes_before_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(FOUND, monkeypatch) == [
        "some-words-3: leader 2 (epoch 7), replicas 1,2,3, in sync 2,3",
        "  broker 1: not in sync, lacks 60 records (its log ends at 40), had all 12.3 s ago, fetched 11.0 s ago",
        "  broker 3: in sync, lacks nothing, fetched 0.1 s ago",
        "Broker 3 is the controller since 1970-01-01T01:00:00.000+00:00 (controller epoch 5).",
        "Changes before 1970-01-01T01:00:00.000+00:00 are lost.",
        "1970-01-01T02:00:00.000+00:00  isr [1, 2, 3] -> [2, 3]",
        "  because broker 2 asked for it",
    ]
    (line,) = told(FOUND, monkeypatch, "--json")
    row = json.loads(line)
    assert (row["topic"], row["partition"], row["followers"][0]["lag"]) == ("some-words", 3, 60)
    assert row["changes"] == [FOUND.changes[0]._asdict()]


def test_a_gap_is_told_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = PartitionChange(HOUR_MS // 2, 3, "leader 1, isr [1, 2, 3]", "the topic was created")
    lines = told(FOUND._replace(changes=[earlier, *FOUND.changes]), monkeypatch)
    assert lines[6] == (
        "Until 1970-01-01T01:00:00.000+00:00 other brokers were the controller: what they told nobody is missing."
    )
    assert not any(line.startswith("Changes before") for line in lines)
    assert lines[4].endswith("leader 1, isr [1, 2, 3]")


def test_a_silent_leader_and_a_new_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    found = FOUND._replace(leader=-1, isr=(), followers=[], silence="there is no leader", changes=[])
    lines = told(found, monkeypatch)
    assert lines[:2] == [
        "some-words-3: no leader, replicas 1,2,3, in sync none",
        "  the positions of the followers are not known: there is no leader",
    ]
    assert lines[-1] == "It has decided no change of this partition."


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (FollowerPosition(1, -1, -1, -1, -1), "has not fetched in this leader epoch"),
        # A new leader takes members of the ISR for complete before they fetch from it.
        (FollowerPosition(1, 100, 0, 0, -1), "has not fetched in this leader epoch"),
        (
            FollowerPosition(1, 40, 60, -1, 1_000),
            "lacks 60 records (its log ends at 40), has never had all in this leader epoch, fetched 1.0 s ago",
        ),
    ],
)
def test_followers_of_a_new_leader(position: FollowerPosition, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(FOUND._replace(followers=[position]), monkeypatch)[1] == f"  broker 1: not in sync, {words}"


@pytest.mark.parametrize("text", ["words", "words-", "-3", "words-x", "words-³"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    done = call("isr", "why", "--bootstrap-server", "127.0.0.1:1", "--", text, check=2)
    assert f"{text!r} is no partition: expected TOPIC-PARTITION" in done.err


def test_a_lone_broker(broker_address: str, topic: str) -> None:
    out = call("isr", "why", f"{topic}-0", "--bootstrap-server", broker_address).out
    assert out == [
        f"{topic}-0: leader 0 (epoch 0), replicas 0, in sync 0",
        "This broker is a cluster of its own: neither leaders nor in-sync replicas ever change.",
    ]
    for wrong in (f"{topic}-1", "absent-0"):
        done = call("isr", "why", wrong, "--bootstrap-server", broker_address, check=1)
        assert f"there is no partition {wrong}" in done.err


@pytest.mark.usefixtures("foreign_programs")
@pytest.mark.parametrize("version", [kafka.KAFKA_3, kafka.KAFKA_4])
def test_apache_kafka_does_not_know_why(version: str) -> None:
    require(kafka.missing(version))
    with kafka.ApacheKafka(version) as running:
        with Admin({"bootstrap.servers": running.bootstrap}) as admin:
            admin.create_topics([NewTopic("words", 1, 1)])
        done = call("isr", "why", "words-0", "--bootstrap-server", running.bootstrap, check=1)
    assert "does not tell why partitions change: it is not a broker of kafkalog" in done.err

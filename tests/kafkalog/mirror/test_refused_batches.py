"""Test mirrors of partitions of which one has a batch that the target refuses: it waits alone, and skips nothing."""

from __future__ import annotations

import logging
from random import Random

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying import held
from kafkalog.mirror.copying.refused_batches import RefusedBatch, RefusedBatches
from kafkalog.mirror.keeping import topics
from kafkalog.mirror.topics.selection import NameFilter
from kafkalog.protocol.errors import CorruptMessageError, InvalidRecordError, KafkaError, MessageTooLargeError
from tests.kafkalog.mirror.conftest import Clusters, Mirror, StartMirror, all_contents, read_all
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.values import OWN, values_of, write_values
from tests.kafkalog.mirror.writing import make
from tests.support.waiting import wait_until

NUMBERED = {**KEEP, "numbered": ""}
"""As with a target of Apache Kafka."""
LIMIT = "2000"
LARGE = b"L" * 3000


def configure(address: str, topic: str, name: str, value: str) -> None:
    with Admin({"bootstrap.servers": address}) as admin:
        admin.incremental_alter_configs({ConfigResource.topic(topic): [ConfigChange(name, value)]})


@pytest.fixture
def start(start_mirror: StartMirror, monkeypatch: pytest.MonkeyPatch) -> StartMirror:
    """Return what starts mirrors that try refused batches again soon."""

    def start(topic: str, more: dict[str, str], **extra: str) -> Mirror:
        monkeypatch.setattr(held, "PAUSE_S", 0.2)
        monkeypatch.setattr(held, "LONGEST_PAUSE_S", 0.4)
        if "numbered" in more:
            monkeypatch.setattr(topics, "node_that_takes_offsets", lambda _: None)
        properties = {name: value for name, value in more.items() if name != "numbered"}
        return start_mirror(topic, **OWN, **properties, **extra)

    return start


@pytest.mark.parametrize("tasks", ["1", "8"])
@pytest.mark.parametrize("more", [{}, KEEP, NUMBERED], ids=["translate", "keep", "numbered"])
def test_a_batch_that_is_too_large_waits_for_the_limit_to_be_raised(
    clusters: Clusters,
    start: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    more: dict[str, str],
    tasks: str,
) -> None:
    names = [f"large-{alias}", f"small-{alias}"]
    large, small = (TopicPartition(name, 0) for name in names)
    for name in names:
        make(clusters.source, name)
        make(clusters.target, f"{alias}.{name}", max_message_bytes=LIMIT)
    before, after = [b"v%d" % number for number in range(4)], [b"v%d" % number for number in range(4, 7)]
    write_values(clusters.source, large.topic, [*before, LARGE, *after])
    write_values(clusters.source, small.topic, before)
    mirror = start(",".join(names), more, tasks_max=tasks)
    told = f"{large} is held at offset 4 of the source, because the target refuses the record batch there"
    wait_until(lambda: caplog.text.count(told) > 2, "it is tried again")
    write_values(clusters.source, small.topic, after)
    wait_until(lambda: mirror.positions == {large: 4, small: 7}, "the other one is mirrored, and what is before")
    assert mirror.held == {large}
    assert "MESSAGE_TOO_LARGE" in caplog.text
    assert f"Set a larger max.message.bytes of topic {alias}.{large.topic} in the target" in caplog.text
    assert mirror.progress.restarts == 0
    assert values_of(read_all(clusters.target, f"{alias}.{large.topic}", 4)[0]) == before
    # Another process finds it as this one did.
    assert mirror.stop() is None
    caplog.clear()
    mirror = start(",".join(names), more, tasks_max=tasks)
    wait_until(lambda: told in caplog.text, "it is held again")
    configure(clusters.target, f"{alias}.{large.topic}", "max.message.bytes", "100000")
    assert values_of(read_all(clusters.target, f"{alias}.{large.topic}", 8)[0]) == [*before, LARGE, *after]
    assert values_of(read_all(clusters.target, f"{alias}.{small.topic}", 7)[0]) == before + after
    wait_until(lambda: not mirror.held, "it is held no more")
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


@pytest.mark.parametrize("more", [{}, NUMBERED], ids=["translate", "numbered"])
def test_a_record_without_key_waits_until_the_topic_is_not_compacted(
    clusters: Clusters,
    start: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    more: dict[str, str],
) -> None:
    caplog.set_level(logging.INFO, logger="kafkalog.mirror")
    topic = f"words-{alias}"
    remote, keyless, other = f"{alias}.{topic}", TopicPartition(topic, 0), TopicPartition(topic, 1)
    make(clusters.source, topic, 2)
    make(clusters.target, remote, 2, cleanup_policy="compact")
    values = [b"v%d" % number for number in range(9)]
    # Small batches are joined, so that the refused one has some that the target takes.
    write_values(clusters.source, topic, values[:3])
    write_values(clusters.source, topic, values[3:4], key=None)
    write_values(clusters.source, topic, values[4:])
    write_values(clusters.source, topic, values, partition=1)
    mirror = start(topic, more, tasks_max="1")
    told = f"{keyless} is held at offset 3 of the source"
    wait_until(lambda: told in caplog.text, "it is held")
    wait_until(lambda: mirror.positions == {keyless: 3, other: 9}, "the other one is mirrored, and what is before")
    assert "INVALID_RECORD" in caplog.text
    configure(clusters.target, remote, "cleanup.policy", "delete")
    found = read_all(clusters.target, remote, 18)
    assert (values_of(found[0]), values_of(found[1])) == (values, values)
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


@pytest.mark.parametrize("more", [{}, KEEP], ids=["translate", "keep"])
def test_a_refused_batch_is_passed_once_it_is_deleted_in_the_source(
    clusters: Clusters,
    start: StartMirror,
    alias: str,
    more: dict[str, str],
) -> None:
    tp = TopicPartition(f"words-{alias}", 0)
    make(clusters.source, tp.topic)
    make(clusters.target, f"{alias}.{tp.topic}", max_message_bytes=LIMIT)
    write_values(clusters.source, tp.topic, [LARGE, b"v1"])
    mirror = start(tp.topic, more)
    wait_until(lambda: mirror.held == {tp}, "it is held")
    with Admin(clusters.client("source")) as admin:
        admin.delete_records({tp: 1})
    assert values_of(read_all(clusters.target, f"{alias}.{tp.topic}", 1)[0]) == [b"v1"]
    wait_until(lambda: not mirror.held, "it is held no more")
    assert mirror.stop() is None


def test_a_worker_after_it_holds_what_the_one_before_has_held(
    clusters: Clusters,
    start: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tp = TopicPartition(f"words-{alias}", 0)
    make(clusters.source, tp.topic)
    make(clusters.target, f"{alias}.{tp.topic}", max_message_bytes=LIMIT)
    write_values(clusters.source, tp.topic, [b"v0", LARGE, b"v2"])
    mirror = start(tp.topic, {})
    monkeypatch.setattr(held, "PAUSE_S", 1000.0)
    monkeypatch.setattr(held, "LONGEST_PAUSE_S", 1000.0)
    wait_until(lambda: "tried again in 1000 s" in caplog.text, "it is held for long")
    count = caplog.text.count("is held at")
    with Admin(clusters.client("source")) as admin:
        # The topic's partitions are assigned anew.
        admin.create_partitions({tp.topic: 2})
    wait_until(lambda: len(mirror.progress.partitions()) == 2, "there is another assignment")
    write_values(clusters.source, tp.topic, [b"w0"], partition=1)
    wait_until(lambda: mirror.positions == {tp: 1, TopicPartition(tp.topic, 1): 1}, "the other one is mirrored")
    wait_until(lambda: mirror.held == {tp}, "it is held again")
    assert caplog.text.count("is held at") == count
    assert mirror.stop() is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("more", [{}, KEEP], ids=["translate", "keep"])
def test_each_record_comes_once_and_in_order_while_batches_are_refused(
    clusters: Clusters,
    start: StartMirror,
    alias: str,
    more: dict[str, str],
    seed: int,
) -> None:
    topic, random = f"words-{alias}", Random(seed)
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, 4)
    make(clusters.target, remote, 4, max_message_bytes=LIMIT)
    mirror = start(topic, more, tasks_max="2")
    with Producer({**clusters.client("source"), "linger.ms": "5"}) as producer:
        for number in range(400):
            value = LARGE if random.random() < 0.02 else b"v%d" % number
            producer.send(topic, value, b"k%d" % number, partition=random.randrange(4))
            if random.random() < 0.05:
                producer.flush()
    wait_until(lambda: bool(mirror.held), "one is held")
    configure(clusters.target, remote, "max.message.bytes", "100000")
    found = read_all(clusters.target, remote, 400)
    assert all_contents(found) == all_contents(read_all(clusters.source, topic, 400))
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


def test_several_batches_are_sent_one_by_one_before_one_is_held() -> None:
    refused, tp = RefusedBatches(), TopicPartition("words", 0)
    assert not refused.goes_singly(tp)
    assert not refused.note(tp, RefusedBatch(3, 8, True, InvalidRecordError("no key")), "words", 100.0)
    assert (refused.goes_singly(tp), refused.due(1000.0), list(refused.waiting)) == (True, [], [])
    assert refused.note(tp, RefusedBatch(5, 6, False, MessageTooLargeError()), "words", 100.0)
    assert list(refused.waiting) == [], "what is before it is read"
    refused.stop(tp)
    assert list(refused.waiting) == [tp]
    assert (refused.due(109.0), refused.due(110.0), list(refused.waiting)) == ([], [tp], [])
    refused.begin_again()
    assert not refused.release(tp, 5)
    assert refused.release(tp, 6)
    assert refused.goes_singly(tp), "the target does not have all of those that were joined"
    assert not refused.release(tp, 8)
    assert not refused.goes_singly(tp)


@pytest.mark.parametrize(
    ("error", "copied", "remedy"),
    [
        (MessageTooLargeError("L"), None, "Set a larger max.message.bytes of topic old.words in the target, or delete"),
        (
            MessageTooLargeError("L"),
            NameFilter.of(".*", "", "config.properties"),
            "Set a larger max.message.bytes of topic words in the source, which is copied to old.words, or delete",
        ),
        (
            InvalidRecordError("K"),
            NameFilter.of(".*", "cleanup.*", "config.properties"),
            "If records lack keys, change cleanup.policy of topic old.words in the target, or delete",
        ),
        (CorruptMessageError("C"), None, "Change the configuration of topic old.words in the target, or delete"),
    ],
    ids=["the target's", "copied", "excluded", "corrupt"],
)
def test_the_remedy_is_where_the_configuration_comes_from(
    caplog: pytest.LogCaptureFixture, error: KafkaError, copied: NameFilter | None, remedy: str
) -> None:
    RefusedBatches().note(TopicPartition("words", 0), RefusedBatch(5, 6, False, error), "old.words", 0.0, copied)
    assert remedy in caplog.text
    assert f"tried again in 10 s: {error}. Others are mirrored." in caplog.text

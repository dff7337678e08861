"""Test that a task has one owner, whatever the one before it still believes."""

from __future__ import annotations

import pytest

from kafkalog.client.transactions.errors import TransactionError
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.positions.recalled import recalled
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.runs import MOST_RUNS_STORED, Run, own_runs, runs_before
from kafkalog.mirror.internal_topics.stored import read_positions, read_syncs
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.mirror.conftest import Clusters, read_all
from tests.kafkalog.mirror.writing import make, write


def batch(offset: int, value: bytes) -> MirroredBatch:
    return MirroredBatch(encode_batch([Record(0, 1000, None, value)]), ((offset, 1),), False)


def settings_with_topics(clusters: Clusters, alias: str, remote: str) -> MirrorSettings:
    settings, _ = MirrorSettings.of({}, alias, "target", (clusters.client("source"), clusters.client("target")))
    make(clusters.target, remote)
    for own in (settings.naming.offsets, settings.naming.offset_syncs):
        make(clusters.target, own, cleanup_policy="compact")
    return settings


def test_all_runs_are_stored_once_in_a_turn(clusters: Clusters, alias: str) -> None:
    tp, remote = TopicPartition(f"words-{alias}", 0), f"{alias}.words-{alias}"
    settings = settings_with_topics(clusters, alias, remote)
    task = MirrorTask(settings, 0)
    earlier = Run(0, 0, 7)

    def mirror(offset: int) -> None:
        task.send(tp, batch(offset, b"x"))
        task.advance(tp, offset + 1)
        task.commit()

    def stored() -> list[tuple[int, int | None]]:
        """Return how many runs each sync has of its transaction, and of those before."""
        found = [(own_runs(*each), runs_before(*each)) for each in read_syncs(settings)]
        return [(len(own), None if before is None else len(before)) for own, before in found]

    try:
        task.start()
        write(clusters.target, remote, range(8))
        task.recall(tp, [earlier])
        for offset in (10, 11, 12):
            mirror(offset)
        assert stored() == [(1, 1), (1, None), (1, None)]
        assert not task.dirty
        task.begin_turn()
        assert task.dirty
        task.commit()
        assert stored()[3:] == [(0, 4)]
        task.begin_turn()
        assert not task.dirty
        assert task.commit() == {}
        mirror(13)
        assert stored()[4:] == [(1, 4)]
        last = list(read_syncs(settings))[-1]
        assert (runs_before(*last) or ())[0] == earlier
    finally:
        task.close()


def test_all_runs_of_a_large_transaction_are_stored(clusters: Clusters, alias: str) -> None:
    tp, remote = TopicPartition(f"words-{alias}", 0), f"{alias}.words-{alias}"
    settings = settings_with_topics(clusters, alias, remote)
    count = 2 * MOST_RUNS_STORED + 10
    task = MirrorTask(settings, 0)
    try:
        task.start()
        for number in range(count):
            task.send(tp, batch(3 * number, b"x"))
        task.advance(tp, 3 * count)
        done = task.commit()
    finally:
        task.close()
    assert done[tp].runs == tuple(Run(3 * number, number, 1) for number in range(count))
    assert tuple(recalled(read_syncs(settings))[tp].runs) == done[tp].runs


def test_who_takes_a_task_over_ends_what_its_owner_has_begun(clusters: Clusters, alias: str) -> None:
    tp, remote = TopicPartition(f"words-{alias}", 0), f"{alias}.words-{alias}"
    settings = settings_with_topics(clusters, alias, remote)
    before, after = MirrorTask(settings, 0), MirrorTask(settings, 0)
    try:
        before.start()
        before.send(tp, batch(0, b"once"))
        before.advance(tp, 1)
        before.commit()
        # It stands still now, with records sent and not committed, and another process takes its task over.
        before.send(tp, batch(1, b"twice"))
        before.advance(tp, 2)
        before._producer.flush()
        after.start()
        assert read_positions(settings) == {tp: 1}
        after.send(tp, batch(1, b"twice"))
        after.advance(tp, 2)
        after.commit()
        with pytest.raises(TransactionError):
            before.commit()
    finally:
        before.close()
        after.close()
    assert read_positions(settings) == {tp: 2}
    (found,) = read_all(clusters.target, remote, 2).values()
    assert [record.value for record in found] == [b"once", b"twice"]


def test_what_comes_after_a_refused_batch_is_read_again(clusters: Clusters, alias: str) -> None:
    """A batch is refused by the target, or by the client because of `max.request.size`."""
    topic, remote = f"words-{alias}", f"{alias}.words-{alias}"
    refused, sent, advanced, later = (TopicPartition(topic, number) for number in range(4))
    settings, _ = MirrorSettings.of(
        {"target.producer.max.request.size": "5000"},
        alias,
        "target",
        (clusters.client("source"), clusters.client("target")),
    )
    make(clusters.target, remote, 4, max_message_bytes="2000")
    for own in (settings.naming.offsets, settings.naming.offset_syncs):
        make(clusters.target, own, cleanup_policy="compact")
    task = MirrorTask(settings, 0)

    def mirror(tp: TopicPartition, offset: int, value: bytes = b"x") -> None:
        task.begin(tp, offset)
        task.send(tp, batch(offset, value))
        task.advance(tp, offset + 1, 7)

    try:
        task.start()
        mirror(refused, 0)
        task.commit()
        for size in (3000, 6000):
            mirror(sent, 10)
            task.begin(advanced, 20)
            task.advance(advanced, 25, 3)
            mirror(refused, 1, b"L" * size)
            assert task.commit() == {}
            assert not task.dirty
            mirror(later, 30)
            undone = task.take_undone()
            assert undone is not None
            assert {tp: each.offset for tp, each in undone.refused.items()} == {refused: 1}
            assert undone.positions == {
                refused: OffsetAndMetadata(1, 7),
                sent: OffsetAndMetadata(10),
                later: OffsetAndMetadata(30),
            }
            assert task.take_undone() is None
        mirror(sent, 10)
        assert {tp: each.next_offset for tp, each in task.commit().items()} == {sent: 11, advanced: 25}
    finally:
        task.close()
    assert read_positions(settings) == {refused: 1, sent: 11, advanced: 25}
    assert {number: len(records) for number, records in read_all(clusters.target, remote, 2).items()} == {0: 1, 1: 1}

"""Test that a task has one owner, whatever the one before it still believes."""

from __future__ import annotations

import pytest

from kafkalog.client.transactions.errors import TransactionError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.batches import MirroredBatch
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.stored import read_positions
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.mirror.conftest import Clusters, read_all
from tests.kafkalog.mirror.test_mirror import make


def batch(offset: int, value: bytes) -> MirroredBatch:
    return MirroredBatch(encode_batch([Record(0, 1000, None, value)]), ((offset, 1),), False)


def test_who_takes_a_task_over_ends_what_its_owner_has_begun(clusters: Clusters, alias: str) -> None:
    tp, remote = TopicPartition(f"words-{alias}", 0), f"{alias}.words-{alias}"
    settings, _ = MirrorSettings.of({}, alias, "target", (clusters.client("source"), clusters.client("target")))
    make(clusters.target, remote)
    for own in (settings.naming.offsets, settings.naming.offset_syncs):
        make(clusters.target, own, cleanup_policy="compact")
    before, after = MirrorTask(settings, 0), MirrorTask(settings, 0)
    try:
        before.start()
        before.send(tp, batch(0, b"once"))
        before.advance(tp, 1)
        before.commit()
        # It stands still now, with records sent and not committed, and another process takes its task over.
        before.send(tp, batch(1, b"twice"))
        before.advance(tp, 2)
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

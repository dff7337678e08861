"""Test mirrors of partitions that have lost their last records, as in an unclean election."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.assignor import task_of
from kafkalog.mirror.copying.positions.created_again import topic_ids
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.stored import read_positions
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.records import checking
from kafkalog.records.kernels.abi import table
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, Mirror, StartMirror, read_all, settings_of
from tests.kafkalog.mirror.writing import make, write
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

ALL = {"emit_checkpoints_enabled": "true"}
TP = TopicPartition("t", 0)
WRITTEN, KEPT = 10, 4
"""Records in the source that loses some, a batch each."""


def values(numbers: range) -> list[bytes]:
    return [b"v%d" % number for number in numbers]


def store(settings: MirrorSettings, tp: TopicPartition, position: int, ids: Mapping[str, UUID]) -> None:
    """Store a position as a mirror does that has read more than there is now."""
    task = MirrorTask(settings, task_of(tp, settings.tasks), ids)
    try:
        task.start()
        task.store({tp: position})
    finally:
        task.close()


def test_a_source_that_lost_records_goes_on_at_its_end(
    clusters: Clusters, start_mirror: StartMirror, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, tp = f"lost-{alias}", TopicPartition(f"lost-{alias}", 0)
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **ALL)
    wait_until(lambda: read_positions(mirror.settings).get(tp) == 5, "the position is stored")
    mirror.stop()
    with Admin(clusters.client("source")) as admin:
        ids = topic_ids(admin, [topic])
    store(mirror.settings, tp, 100, ids)
    with caplog.at_level(logging.WARNING, logger="kafkalog.mirror"):
        later = start_mirror(topic, **ALL)
        wait_until(lambda: read_positions(mirror.settings).get(tp) == 5, "the position is set back")
        wait_until(lambda: tp in later.progress.partitions(), "the mirror goes on")
    assert later.progress.partitions()[tp].next_offset == 5
    (said,) = (each.getMessage() for each in caplog.records if str(tp) in each.getMessage())
    assert said == (
        f"{tp} has lost the records from offset 5 on in the source and was mirrored up to offset 100: the target keeps "
        "them, and what the source has from offset 5 on is mirrored behind them"
    )
    # What lies before it is where it was, as long as nothing came.
    assert later.progress.translate(tp, 3) == 3
    write(clusters.source, topic, range(5, 8))
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 8).values()
    assert [record.value for record in found] == values(range(8))
    last = found[-1].offset
    wait_until(lambda: later.progress.translate(tp, 7) == last, "the new offsets are translated")


def test_a_position_without_the_id_of_its_topic_may_be_in_another_topic(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    """The topic may have been deleted and created again, so that none of its records was mirrored."""
    topic, tp = f"lost-{alias}", TopicPartition(f"lost-{alias}", 0)
    make(clusters.source, topic)
    mirror = start_mirror(topic, **ALL)
    wait_until(lambda: tp in mirror.progress.partitions(), "the mirror has its topics")
    mirror.stop()
    store(mirror.settings, tp, 100, {})
    write(clusters.source, topic, range(5))
    start_mirror(topic, **ALL)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 5).values()
    assert [record.value for record in found] == values(range(5))


class Losing:
    """A source of its own whose topic `t` has lost records after they were mirrored, and the mirrors of it."""

    def __init__(self, broker: KafkalogBroker, target: str, alias: str, stack: ExitStack) -> None:
        self.broker, self.target, self.alias = broker, target, alias
        self._stack = stack
        self.settings = settings_of(Clusters(broker.bootstrap, target), alias, "t", emit_checkpoints_enabled="true")

    def write(self, numbers: range) -> None:
        for number in numbers:
            write(self.broker.bootstrap, "t", range(number, number + 1))

    def mirror(self) -> Mirror:
        """Start a mirror, and wait until it has the partition."""
        mirror = Mirror(self.settings)
        self._stack.callback(mirror.stop)
        wait_until(lambda: TP in mirror.progress.partitions(), "the mirror has the partition")
        return mirror

    def mirror_all(self) -> None:
        """Mirror what is written, and stop."""
        mirror = self.mirror()
        wait_until(lambda: read_positions(self.settings).get(TP) == WRITTEN, "all is mirrored")
        mirror.stop()

    def lose(self) -> None:
        """Let the broker end, without what it had not forced to the device; its next leader epoch is another one."""
        self.broker.kill()
        path = self.broker.log_dir / "t-0" / f"{0:020}.log"
        rows = checking.scan(path.read_bytes(), 0, 0).table
        with path.open("r+b") as file:
            file.truncate(int(rows[KEPT, table.POSITION]))
        self.broker.start()

    def ids(self) -> dict[str, UUID]:
        with Admin({"bootstrap.servers": self.broker.bootstrap}) as admin:
            return topic_ids(admin, ["t"])

    def mirrored(self, count: int) -> list[bytes | None]:
        return [record.value for record in read_all(self.target, f"{self.alias}.t", count)[0]]


@pytest.fixture
def losing(clusters: Clusters, alias: str, tmp_path: Path) -> Iterator[Losing]:
    """Start a source with records, all of which are mirrored."""
    with KafkalogBroker(tmp_path / "source", AT_ONCE) as broker, ExitStack() as stack:
        source = Losing(broker, clusters.target, alias, stack)
        make(broker.bootstrap, "t")
        source.write(range(WRITTEN))
        source.mirror_all()
        yield source


@pytest.mark.parametrize("has_epoch", [True, False], ids=["epoch", "no epoch"])
def test_a_mirror_that_runs_goes_on_at_the_end(losing: Losing, has_epoch: bool) -> None:
    """It has fetched nothing since it began, so that it knows no more of its position than what was stored."""
    if not has_epoch:
        # As an older mirror has stored it.
        store(losing.settings, TP, WRITTEN, losing.ids())
    mirror = losing.mirror()
    losing.lose()
    wait_until(lambda: mirror.progress.partitions()[TP].next_offset == KEPT, "the mirror has gone back")
    assert read_positions(losing.settings)[TP] == KEPT
    losing.write(range(100, 103))
    assert losing.mirrored(WRITTEN + 3) == [*values(range(WRITTEN)), *values(range(100, 103))]


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_new_records_at_lost_offsets_are_not_left_out(losing: Losing, running: bool) -> None:
    """The leader epoch of the position tells that the records before it are others now, however many there are."""
    if running:
        losing.mirror()
    losing.lose()
    new = range(100, 100 + WRITTEN)
    losing.write(new)
    if not running:
        losing.mirror()
    assert losing.mirrored(2 * WRITTEN) == [*values(range(WRITTEN)), *values(new)]


def test_a_position_before_the_beginning_of_the_log_goes_on_there(losing: Losing) -> None:
    losing.write(range(10, 20))
    with Admin({"bootstrap.servers": losing.broker.bootstrap}) as admin:
        admin.delete_records({TP: 15})
    mirror = losing.mirror()
    assert losing.mirrored(15) == values(range(10)) + values(range(15, 20))
    assert mirror.progress.restarts == 0

"""Test mirrors of partitions of which one has a batch that cannot be read: it waits alone, and skips nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.replicas.replica_admin import ReplicaAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying import held
from kafkalog.mirror.copying.damaged import DamagedPartitions
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.worker import Worker
from tests.kafkalog.mirror.conftest import IDENTITY, Clusters, Mirror, StartMirror, read_all, settings_of
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

ONE_BATCH = "1000"
"""With this linger.ms the records of one call are in one batch."""


def segment_of(address: str, tp: TopicPartition) -> Path:
    with ReplicaAdmin(ClientConfig.from_dict({"bootstrap.servers": address})) as replicas:
        (directories,) = replicas.describe_log_dirs().values()
    (directory,) = directories
    return Path(directory) / str(tp) / f"{0:020d}.log"


@contextmanager
def changed(segment: Path, value: bytes) -> Iterator[None]:
    """Have one byte of a record's value changed on the disk, so that its batch has a wrong checksum."""
    at = segment.read_bytes().index(value)
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"V")
    yield
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(value[:1])


@pytest.mark.parametrize("more", [{}, KEEP, IDENTITY], ids=["translate", "keep", "identity"])
def test_the_others_are_mirrored(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, str],
) -> None:
    monkeypatch.setattr(held, "PAUSE_S", 0.2)
    topic = f"words-{alias}"
    remote = topic if more is IDENTITY else f"{alias}.{topic}"
    make(clusters.source, topic, 2)
    whole, broken = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for numbers in (range(3), range(3, 5), range(5, 7)):
        write(clusters.source, topic, numbers, 1, linger_ms=ONE_BATCH)
    write(clusters.source, topic, range(5))
    with changed(segment_of(clusters.source, broken), b"v4"):
        mirror = start_mirror(topic, **more)
        wait_until(lambda: caplog.text.count(f"{broken} is held at offset 3 of the source") > 1, "it is tried again")
        write(clusters.source, topic, range(5, 10))
        wait_until(
            lambda: mirror.positions == {whole: 10, broken: 3},
            "the other one is mirrored, and what is before the damage",
        )
        assert mirror.held == {broken}
        assert mirror.progress.restarts == 0
    found = read_all(clusters.target, remote, 17)
    assert [record.value for record in found[1]] == [b"v%d" % number for number in range(7)]
    wait_until(lambda: not mirror.held, "it is read again")
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


def test_a_mirror_that_begins_at_the_damage_goes_on_behind_it_once_it_is_deleted(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held, "PAUSE_S", 0.2)
    tp = TopicPartition(f"words-{alias}", 0)
    make(clusters.source, tp.topic)
    for numbers in (range(2), range(2, 4)):
        write(clusters.source, tp.topic, numbers, linger_ms=ONE_BATCH)
    with changed(segment_of(clusters.source, tp), b"v1"):
        mirror = start_mirror(tp.topic, max_bytes_per_second="100000")
        wait_until(lambda: f"{tp} is held at offset 0 of the source" in caplog.text, "it is held")
        with Admin(clusters.client("source")) as admin:
            admin.delete_records({tp: 2})
        found = read_all(clusters.target, f"{alias}.{tp.topic}", 2)
        assert [record.value for record in found[0]] == [b"v2", b"v3"]
        assert not mirror.held
        assert mirror.stop() is None


def test_a_batch_that_expands_too_far_waits_until_it_may(
    clusters: Clusters, alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    tp = TopicPartition(f"words-{alias}", 0)
    # Batches with such times are decoded.
    make(clusters.source, tp.topic, message_timestamp_type="LogAppendTime")
    write(clusters.source, tp.topic, range(100), linger_ms=ONE_BATCH, compression_type="gzip")
    settings = settings_of(clusters, alias, tp.topic)
    for bound in ("1000", "1000000"):
        mirror = Mirror(replace(settings, source_client={**settings.source_client, "max.batch.bytes": bound}))
        try:
            if bound == "1000":
                wait_until(lambda: f"{tp} is held at offset 0 of the source" in caplog.text, "it is held")
                assert "more than 1000 bytes; raise max.batch.bytes" in caplog.text
            else:
                read_all(clusters.target, f"{alias}.{tp.topic}", 100)
        finally:
            assert mirror.stop() is None


def test_pauses_grow_at_one_batch_only() -> None:
    damaged, tp, error = DamagedPartitions(), TopicPartition("words", 0), ValueError("torn")
    damaged.note(tp, 5, error, 100.0)
    assert (damaged.due(109.0), list(damaged.waiting)) == ([], [tp])
    assert (damaged.due(110.0), damaged.due(110.0), list(damaged.waiting)) == ([tp], [], [])
    damaged.note(tp, 5, error, 110.0)
    assert (damaged.due(129.0), damaged.due(130.0)) == ([], [tp])
    for _ in range(9):
        damaged.note(tp, 5, error, 200.0)
    assert (damaged.due(499.0), damaged.due(500.0)) == ([], [tp])
    damaged.note(tp, 9, error, 500.0)
    assert damaged.due(510.0) == [tp]
    assert not damaged.release(tp, 9), "what was fetched before the damage"
    assert damaged.release(tp, 10)
    assert not damaged.release(tp, 11)
    damaged.note(tp, 9, error, 600.0)
    assert damaged.due(610.0) == [tp]


def test_partitions_that_are_given_up_are_not_read_again(clusters: Clusters, alias: str) -> None:
    tp = TopicPartition("words", 0)
    with Worker(settings_of(clusters, alias, "words"), Progress()) as worker:
        worker._left_out.damaged.note(tp, 5, ValueError("torn"), 0.0)
        worker.on_partitions_lost([tp])
        worker._left_out.check(1000.0)
        assert not worker._left_out.damaged.waiting

"""Test the transactional mode without Spark, with a real broker: decisions, commits, aborts.

Driver and tasks run here, one after another, in every order that Spark and crashes may bring about.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.transactions.requests import TransactionRequests
from spark_kafkalog import faults
from spark_kafkalog.sink.batch_writer import KafkalogWriter
from spark_kafkalog.sink.message import TaskWrote
from spark_kafkalog.sink.transactional import ledger, transactional_ids
from spark_kafkalog.sink.transactional.errors import (
    LedgerError,
    LostTransactionsError,
    OldCheckpointError,
    TakenOverError,
    UnknownMicroBatchError,
)
from spark_kafkalog.sink.transactional.ledger_record import TaskTransaction, encode
from spark_kafkalog.sink.transactional.transaction_ends import open_transactions
from tests.spark_kafkalog.sink.support import DEADLINE_S, batch_of
from tests.spark_kafkalog.sink.transactional.committed import (
    VALUES,
    Died,
    MicroBatch,
    Sink,
    committed,
    in_task,
    with_properties,
)
from tests.spark_kafkalog.topics import Topics
from tests.spark_kafkalog.without_spark import copied, make_source


@pytest.fixture
def other_process() -> Callable[[], None]:
    """Have tasks run in another Python worker from now on."""
    return transactional_ids.OF_PROCESS.clear


def test_rows_are_seen_when_the_batch_is_committed(sink: Sink) -> None:
    for number in range(3):
        batch = sink.batch(number)
        tasks = [batch.task([b"%d-%d-%d" % (number, task, row) for row in range(5)]) for task in range(3)]
        before = [b"%d-%d-%d" % (n, task, row) for n in range(number) for task in range(3) for row in range(5)]
        assert sink.seen() == before
        batch.commit(*tasks)
    assert len(sink.seen()) == 45
    ids = {task.transaction.transactional_id for task in tasks if task.transaction}
    assert len(ids) == 3, "one worker needs as many ids as it has tasks in a batch, not more for each batch"


def test_a_task_without_rows_opens_nothing(sink: Sink) -> None:
    batch = sink.batch(0)
    empty = batch.task([])
    assert empty.transaction is None
    batch.commit(empty, batch.task([b"a"]))
    nothing = sink.batch(1)
    nothing.commit(nothing.task([]))
    nothing = sink.batch(2)
    nothing.commit()
    assert sink.seen() == [b"a"]


@pytest.mark.parametrize("point", ["after-decision", "between-commits", "after-commits"])
@pytest.mark.parametrize("aborts", [False, True], ids=["driver dies", "Spark aborts"])
def test_what_was_decided_is_finished(
    sink: Sink, die_at: Callable[[str | None], None], point: str, aborts: bool
) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"%d" % task]) for task in range(4)]
    die_at(point)
    with pytest.raises(Died):
        batch.commit(*tasks)
    die_at(None)
    if aborts:
        # Spark does so after every commit that failed.
        batch.abort(*tasks)
        assert sink.seen() == [b"0", b"1", b"2", b"3"]
    # Spark runs the batch again.
    again = sink.batch(0)
    assert sink.seen() == [b"0", b"1", b"2", b"3"]
    repeated = [again.task([b"%d" % task]) for task in range(4)]
    assert [task.transaction for task in repeated] == [None] * 4
    again.commit(*repeated)
    later = sink.batch(1)
    later.commit(later.task([b"later"]))
    assert sink.seen() == sink.sent() == [b"0", b"1", b"2", b"3", b"later"]


@pytest.mark.parametrize("point", ["before-decision", "task-flushed", "task-unflushed"])
def test_what_was_not_decided_is_aborted(
    sink: Sink, die_at: Callable[[str | None], None], other_process: Callable[[], None], point: str
) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"lost"])]
    die_at(point)
    with pytest.raises(Died):
        batch.commit(*tasks, batch.task([b"lost too"]))
    die_at(None)
    other_process()
    again = sink.batch(0)
    again.commit(again.task([b"a"]))
    # Nothing is left open: what comes after it can be read.
    assert sink.seen() == [b"a"]


def test_abort(sink: Sink) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"a"]), batch.task([b"b"])]
    batch.abort(*tasks, None)
    with pytest.raises(TakenOverError):
        # A commit that was still under way somewhere.
        batch.commit(*tasks)
    again = sink.batch(0)
    again.commit(again.task([b"c"]))
    assert sink.seen() == [b"c"]


def test_of_two_attempts_one_is_committed(sink: Sink, other_process: Callable[[], None]) -> None:
    batch = sink.batch(0)
    chosen = batch.task([b"a"])
    other_process()
    speculative = batch.task([b"a"])
    assert speculative.transaction != chosen.transaction
    batch.commit(chosen)
    # The other one is not in the way of readers.
    assert sink.seen() == [b"a"]
    assert sink.sent() == [b"a", b"a"]


def test_commits_do_not_wait_for_aborts(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, other_process: Callable[[], None]
) -> None:
    """A coordinator of another attempt that is away must not use up the time of the commits."""
    batch = sink.batch(0)
    chosen = batch.task([b"a"])
    other_process()
    speculative = batch.task([b"a"])
    found: list[TaskTransaction] = []

    def point(reached: str) -> None:
        if reached == "after-commits":
            with Cluster(ClientConfig.from_dict({"bootstrap.servers": batch.bootstrap})) as cluster:
                found.extend(open_transactions(cluster, sink.prefix, time.monotonic() + DEADLINE_S))

    monkeypatch.setattr(faults, "point", point)
    batch.commit(chosen)
    assert found == [speculative.transaction]
    assert sink.seen() == [b"a"]


def test_a_driver_that_was_replaced_decides_nothing(sink: Sink, other_process: Callable[[], None]) -> None:
    old = sink.batch(0)
    tasks = [old.task([b"old"])]
    other_process()
    new = sink.batch(0)
    late = old.task([b"late"])
    done = new.task([b"new"])
    with pytest.raises(TakenOverError, match=r"another query writes with kafka.transactional.id"):
        old.commit(*tasks, late)
    old.abort(*tasks, late)
    new.commit(done)
    assert sink.seen() == [b"new"]


def test_a_driver_that_comes_too_late_leaves_the_batch_as_it_is(sink: Sink, other_process: Callable[[], None]) -> None:
    old = sink.batch(0)
    task = old.task([b"old"])
    other_process()
    new = sink.batch(0)
    new.commit(new.task([b"new"]))
    old.commit(task)
    assert sink.seen() == [b"new"]


def test_a_driver_that_comes_too_late_finishes_what_another_one_has_decided(
    sink: Sink, die_at: Callable[[str | None], None], other_process: Callable[[], None]
) -> None:
    """Spark takes the batch for done, and there may be no later one that would finish it."""
    old = sink.batch(3)
    late = old.task([b"late"])
    other_process()
    new = sink.batch(3)
    chosen = new.task([b"chosen"])
    die_at("after-decision")
    with pytest.raises(Died):
        new.commit(chosen)
    die_at(None)
    old.commit(late)
    assert sink.seen() == [b"chosen"]


def test_a_checkpoint_that_begins_anew_is_another_query(sink: Sink) -> None:
    for query in ("first", "second"):
        batch = sink.batch(0, query=query)
        batch.commit(batch.task([query.encode()]))
    assert sink.seen() == [b"first", b"second"]


def test_an_old_checkpoint_is_refused(sink: Sink) -> None:
    for number in (0, 1):
        batch = sink.batch(number)
        batch.commit(batch.task([b"%d" % number]))
    old = sink.batch(0)
    task = old.task([b"0"])
    with pytest.raises(OldCheckpointError, match=r"micro-batch 0 comes again, but .* batch 1 of this query has been"):
        old.commit(task)
    old.abort(task)
    assert sink.seen() == [b"0", b"1"]


def test_transactions_that_timed_out_after_the_decision_are_told(
    sink: Sink, die_at: Callable[[str | None], None], other_process: Callable[[], None]
) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"a"]), batch.task([b"b"])]
    die_at("after-decision")
    with pytest.raises(Died):
        batch.commit(*tasks)
    die_at(None)
    # What the coordinator does when transaction.timeout.ms has passed; here somebody who takes the id does it.
    lost = tasks[1].transaction
    assert lost is not None
    take_over(batch, lost.transactional_id)
    for _ in range(2):
        with pytest.raises(LostTransactionsError, match=r"batch 0: 1 of 2 transactions .* lostTransactions=skip"):
            sink.batch(0)
    assert sink.seen() == [b"a"]
    again = sink.batch(0, lostTransactions="skip")
    again.commit(again.task([b"a"]), again.task([b"b"]))
    other_process()
    later = sink.batch(1)
    later.commit(later.task([b"c"]))
    assert sink.seen() == [b"a", b"c"]


def test_a_driver_that_is_replaced_while_it_finishes_the_last_batch(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, die_at: Callable[[str | None], None]
) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"a"]), batch.task([b"b"])]
    die_at("after-decision")
    with pytest.raises(Died):
        batch.commit(*tasks)
    other: list[MicroBatch] = []
    written: list[TaskWrote] = []

    def point(reached: str) -> None:
        if reached == "between-commits":
            die_at(None)
            other.append(sink.batch(1))
            written.extend(other[0].task([value]) for value in (b"c", b"d"))

    monkeypatch.setattr(faults, "point", point)
    # The other has finished the batch, and its tasks use the ids again: nothing is lost.
    with pytest.raises(TakenOverError):
        sink.batch(1)
    other[0].commit(*written)
    assert sink.seen() == [b"a", b"b", b"c", b"d"]


def take_over(batch: MicroBatch, transactional_id: str) -> None:
    config = ClientConfig.from_dict({"bootstrap.servers": batch.bootstrap})
    with TransactionRequests(config, transactional_id) as other:
        other.init()


def test_a_ledger_in_several_pieces(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, die_at: Callable[[str | None], None]
) -> None:
    def in_pieces(record: Any, prefix: str, pieces: int) -> list[str]:
        return encode(record, prefix, pieces, 70)

    sink = Sink(topics, topics.create("pieces", 12))

    monkeypatch.setattr(ledger, "encode", in_pieces)
    batch = sink.batch(0)
    tasks = [batch.task([b"%d" % task]) for task in range(5)]
    die_at("after-decision")
    with pytest.raises(Died):
        batch.commit(*tasks)
    die_at(None)
    sink.batch(0)
    assert sink.seen() == [b"%d" % task for task in range(5)]
    group = f"{sink.prefix}-ledger"
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    offsets = asked[group].result(DEADLINE_S).topic_partitions
    assert len(offsets) > 1, "the record was meant not to fit into one piece"


def test_a_ledger_that_is_too_small(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = sink.batch(0)
    tasks = [batch.task([b"%d" % task]) for task in range(3)]

    def too_small(record: Any, prefix: str, pieces: int) -> list[str]:
        return encode(record, prefix, pieces, 60)

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "encode", too_small)
        with pytest.raises(LedgerError, match="3 tasks do not fit into the metadata of 3 partitions"):
            batch.commit(*tasks)
    batch.abort(*tasks)
    assert sink.seen() == []


def test_topics_in_a_column(topics: Topics) -> None:
    first, second = topics.create("first"), topics.create("second")
    sink = Sink(topics, None)
    for number in range(2):
        batch = sink.batch(number)
        batch.commit(batch.task([b"%d" % number], topic=first), batch.task([b"%d" % number], topic=second))
    assert [committed(topics.bootstrap, topic) for topic in (first, second)] == [[b"0", b"1"]] * 2


def test_a_topic_that_the_first_row_creates(topics: Topics) -> None:
    sink = Sink(topics, topics.name("made"))
    batch = sink.batch(0)
    batch.commit(batch.task([b"a"]))
    assert sink.seen() == [b"a"]


class BatchQuery:
    """`df.write`: all rows or none."""

    def __init__(self, bootstrap: str, topic: str, prefix: str, **options: Any) -> None:
        given = {"topic": topic, "kafka.transactional.id": prefix, **options}
        self._source = make_source(bootstrap, given)
        self._handed: KafkalogWriter = copied(self._source.writer(VALUES, False))

    def task(self, value: bytes, number: int = 0) -> Any:
        # In foreachBatch tasks know of the micro-batch, too.
        with in_task("query", number):
            return copied(self._handed.write(iter([batch_of(VALUES, [{"value": value}])])))

    def commit(self, *messages: Any) -> None:
        writer = self._source.writer(VALUES, False)
        assert isinstance(writer, KafkalogWriter)
        writer.commit(list(messages))

    def abort(self, *messages: Any) -> None:
        writer = self._source.writer(VALUES, False)
        assert isinstance(writer, KafkalogWriter)
        writer.abort(list(messages))


def test_a_batch_query_writes_all_or_nothing(topics: Topics, sink: Sink) -> None:
    topic = topics.create("all")

    def query(**options: Any) -> BatchQuery:
        return BatchQuery(topics.bootstrap, topic, sink.prefix, **options)

    failed = query()
    failed.abort(failed.task(b"a"), None)
    for _ in range(2):
        written = query()
        written.commit(written.task(b"b"), written.task(b"c"))
    assert committed(topics.bootstrap, topic) == [b"b", b"c", b"b", b"c"]


def test_a_batch_query_of_a_micro_batch_is_written_once(topics: Topics, sink: Sink) -> None:
    topic = topics.create("each")
    for number in (4, 4, 5, 5):
        written = BatchQuery(topics.bootstrap, topic, sink.prefix, batchId=number)
        written.commit(written.task(b"%d" % number, number))
    assert committed(topics.bootstrap, topic) == [b"4", b"5"]


def test_a_second_batch_query_of_a_micro_batch_is_written_too(topics: Topics, sink: Sink) -> None:
    topic = topics.create("second")
    numbered = BatchQuery(topics.bootstrap, topic, sink.prefix, batchId=4)
    numbered.commit(numbered.task(b"numbered", 4))
    # It says no number, and Spark's is not its own.
    other = BatchQuery(topics.bootstrap, topic, sink.prefix)
    other.commit(other.task(b"other", 4))
    assert sorted(committed(topics.bootstrap, topic)) == [b"numbered", b"other"]


def test_a_stream_goes_by_its_own_numbers(sink: Sink) -> None:
    for number in range(2):
        batch = sink.batch(number, batchId=0)
        batch.commit(batch.task([b"%d" % number]))
    assert sink.seen() == [b"0", b"1"]


@pytest.mark.parametrize(
    "properties",
    [None, {}, {"sql.streaming.queryId": "query"}, {"streaming.sql.batchId": "0"}, {"sql.streaming.queryId": ""}],
    ids=["no task", "nothing", "no batch", "no query", "an empty query"],
)
def test_a_stream_that_does_not_know_its_micro_batch_writes_nothing(
    sink: Sink, properties: dict[str, str] | None
) -> None:
    """A batch that is repeated could not be told from a new one, and its rows would be there twice."""
    batch = sink.batch(0)
    with (
        nullcontext() if properties is None else with_properties(properties),
        pytest.raises(UnknownMicroBatchError, match=r"sql\.streaming\.queryId"),
    ):
        batch.task_of_unknown_batch([b"a"])
    assert sink.sent() == []

"""Test that a loop over a consumer that ends early gets the rest of its records the next time."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any

import pytest

from kafkalog.client.consumer import Consumer, poll_loop, threads
from kafkalog.client.consumer import consumer as consumer_module
from kafkalog.client.consumer.fetcher import fetch_collector
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.fetch import decode
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.consumer.leaders import SILENT_LEADS, two_leaders
from tests.kafkalog.client.consumer.recreated import NEW, TP, Topic, offsets, reading
from tests.kafkalog.client.consumer.support import DEADLINE_S, take
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def test_records_before_one_that_cannot_be_deserialized_come_again() -> None:
    """The records before it, of the same poll, are those that the loop gets."""
    refused = {b"v3"}

    def deserialized(value: bytes) -> bytes:
        if value in refused:
            raise ValueError("not that one")
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        for record in consumer:
            assert (record.offset, consumer.position(TP)) == (0, 3)
            break
        assert consumer.position(TP) == 1
        refused.clear()
        assert offsets(consumer, 4) == [1, 2, 3, 4]


def test_the_rest_is_not_taken_from_another_topic_of_the_same_name() -> None:
    topic = Topic()
    with reading(topic, metadata_max_age_ms=20) as consumer:
        consumer.seek(TP, 0)
        for record in consumer:
            if record.offset == 1:
                # So that nothing is fetched before the topic is another one.
                consumer.pause(TP)
                break
        assert consumer.position(TP) == 2
        topic.topic_id = topic.known_id = NEW
        told = topic.broker.seen[MetadataRequest]
        wait_until(lambda: topic.broker.seen[MetadataRequest] > told + 1, "the consumer has learnt of the other id")
        consumer.resume(TP)
        assert [record.offset for record in consumer.poll(DEADLINE_S)] == [0, 1, 2, 3, 4]


def test_records_come_again_if_a_signal_ends_the_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were taken, but not returned."""

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with reading(Topic()) as consumer:
        consumer.seek(TP, 0)
        with monkeypatch.context() as patched:
            patched.setattr(consumer._loop, "_interrupted", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.consume(100, timeout=DEADLINE_S)
        assert consumer.position(TP) == 0
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]


def test_records_come_again_if_a_signal_ends_their_deserialization() -> None:
    signals = [KeyboardInterrupt()]

    def deserialized(value: bytes) -> bytes:
        if value == b"v3" and signals:
            raise signals.pop()
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        with pytest.raises(KeyboardInterrupt):
            offsets(consumer, 5)
        assert consumer.position(TP) == 0
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]


@contextmanager
def two_partitions() -> Iterator[Consumer]:
    """Yield a consumer that has fetched the two records of each of two partitions."""
    with (
        two_leaders(ListOffsetsRequest) as (leader, _),
        Consumer({"bootstrap.servers": leader.broker.address, "fetch.max.wait.ms": 5, "retry.backoff.ms": 1}) as made,
    ):
        with made._monitor.lock:
            made.assign(SILENT_LEADS)
            for tp in SILENT_LEADS:
                made.seek(tp, 0)
        states = [made._subscription.state(tp) for tp in SILENT_LEADS]
        wait_until(lambda: all(state.ready() for state in states), "both partitions are fetched")
        yield made


def expect_all(consumer: Consumer) -> None:
    assert [consumer.position(tp) for tp in SILENT_LEADS] == [0, 0]
    found = sorted((record.partition, record.offset) for record in take(consumer, 4))
    assert found == [(tp.partition, offset) for tp in SILENT_LEADS for offset in (0, 1)]


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_records_come_again_if_a_signal_ends_their_decoding(
    error: type[BaseException], partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the partitions that were decoded before it, too."""
    read_batch, met = decode.read_batch, []

    def interrupted(buf: Any, pos: int, header: Any, tp: TopicPartition, *others: Any) -> Any:
        if tp not in met:
            met.append(tp)
        if len(met) == partition + 1:
            raise error("of a signal's handler")
        return read_batch(buf, pos, header, tp, *others)

    with two_partitions() as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(decode, "read_batch", interrupted)
            with pytest.raises(error, match="of a signal's handler"):
                consumer.poll(DEADLINE_S)
        expect_all(consumer)


class StoppedError(Exception):
    """An exception of a program's own handler of a signal."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoppedError])
def test_a_signal_while_more_is_taken_reaches_the_caller(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that were taken before come again."""
    to_end_of_line, moved = SubscriptionState.to_end_of_line, []

    def interrupted(subscription: SubscriptionState, tp: TopicPartition) -> None:
        moved.append(tp)
        if len(moved) == 2:
            raise error("of a signal's handler")
        to_end_of_line(subscription, tp)

    with two_partitions() as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(SubscriptionState, "to_end_of_line", interrupted)
            # The first poll takes one partition only.
            patched.setattr(consumer._collector, "_in_line", _one_at_a_time(consumer))
            with pytest.raises(error, match="of a signal's handler"):
                consumer.consume(4, timeout=DEADLINE_S)
        expect_all(consumer)


def _one_at_a_time(consumer: Consumer) -> Callable[[], Any]:
    in_line = consumer._collector._in_line
    return lambda: islice(in_line(), 1)


def begin_again(consumer: Consumer) -> None:
    """Have all records of both partitions fetched, from offset 0."""
    states = [consumer._subscription.state(tp) for tp in SILENT_LEADS]
    for tp in SILENT_LEADS:
        consumer.seek(tp, 0)
    wait_until(lambda: all(state.ready() for state in states), "both partitions are fetched")


SHAPES: dict[str, Callable[[Consumer], Any]] = {
    "poll": lambda consumer: consumer.poll(),
    "consume": lambda consumer: consumer.consume(4, DEADLINE_S),
    "fetched": lambda consumer: consumer.poll_fetched(),
    "arrow": lambda consumer: consumer.poll_arrow(),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_moment_of_a_signal_loses_records(shape: Callable[[Consumer], Any]) -> None:
    """Signals are handled where functions begin, and where those of C return.

    Each such moment is tried in the modules that take records, and in what manages contexts for them.
    """
    files = {module.__file__ for module in (consumer_module, poll_loop, fetch_collector, threads, contextlib)}
    with two_partitions() as consumer:
        shape(consumer)
        for at in itertools.count():
            begin_again(consumer)
            moments = 0

            def moment(frame: FrameType, event: str, argument: Any, at: int = at) -> None:
                nonlocal moments
                code = frame.f_code
                # The end of a generator is no such moment.
                if event in ("call", "c_return") and code.co_filename in files and code.co_name != "_in_line":
                    moments += 1
                    if moments == at + 1:
                        raise KeyboardInterrupt

            sys.setprofile(moment)
            try:
                shape(consumer)
            except KeyboardInterrupt:
                sys.setprofile(None)
                assert [consumer.position(tp) for tp in SILENT_LEADS] == [0, 0], f"moment {at}"
            else:
                break
            finally:
                sys.setprofile(None)
    assert moments > 20


ASKS: dict[str, Callable[[Consumer], list[ConsumerRecord]]] = {
    "poll": lambda consumer: consumer.poll(DEADLINE_S),
    "consume": lambda consumer: consumer.consume(5, DEADLINE_S),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_an_error_of_a_deserializer_is_raised_though_it_would_not_come_again(
    ask: Callable[[Consumer], list[ConsumerRecord]],
) -> None:
    """It may have been raised by a signal's handler."""
    errors = [StoppedError("of a signal's handler")]

    def deserialized(value: bytes) -> bytes:
        if value == b"v3" and errors:
            raise errors.pop()
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        assert [record.offset for record in ask(consumer)] == [0, 1, 2]
        with pytest.raises(StoppedError):
            ask(consumer)
        assert [record.offset for record in consumer.poll(DEADLINE_S)] == [3, 4]


def test_an_error_of_a_deserializer_is_forgotten_after_a_seek() -> None:
    def deserialized(value: bytes) -> bytes:
        if value == b"v3":
            raise ValueError("not that one")
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        assert offsets(consumer, 3) == [0, 1, 2]
        consumer.seek(TP, 4)
        assert offsets(consumer, 1) == [4]


POLLS: dict[str, Callable[[Consumer], Any]] = {
    "records": lambda consumer: consumer.poll(DEADLINE_S),
    "fetched": lambda consumer: consumer.poll_fetched(DEADLINE_S),
    "arrow": lambda consumer: consumer.poll_arrow(DEADLINE_S, ("offset",)),
}


@pytest.mark.parametrize("poll", POLLS.values(), ids=POLLS)
def test_a_signal_after_records_were_taken_moves_no_position(
    poll: Callable[[Consumer], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(subscription: SubscriptionState, tp: TopicPartition) -> None:
        subscription.partitions.pop(tp)
        raise KeyboardInterrupt

    with two_partitions() as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(SubscriptionState, "to_end_of_line", interrupted)
            with pytest.raises(KeyboardInterrupt):
                poll(consumer)
        expect_all(consumer)

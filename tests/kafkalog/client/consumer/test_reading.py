"""Tests of reading without a group: positions, pauses, Arrow batches, omitted records."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from kafkalog.client.consumer import Consumer, NoOffsetForPartitionError, PositionOutOfRangeError, WakeupError
from kafkalog.client.errors import ClientTimeoutError, ConfigError
from kafkalog.client.types import ConsumerRecord, TopicPartition
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, take, values

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def arrow_rows(consumer: Consumer, count: int, columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in consumer.read_arrow(columns, timeout=DEADLINE_S):
        rows += batch.to_pylist()
        if len(rows) >= count:
            break
    assert len(rows) == count
    return rows


def as_row(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampType": record.timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def test_arrow_batches_hold_what_poll_returns(live: Live) -> None:
    topic = live.topic(2)
    for partition, codec in ((0, "none"), (1, "lz4")):
        for part in range(3):
            live.produce(topic, partition, values(50, f"p{partition}.{part}."), compression_type=codec)
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with live.consumer() as consumer:
        consumer.assign(tps)
        records = sorted(take(consumer, 300))
        assert [consumer.position(tp) for tp in tps] == [150, 150]
        consumer.seek_to_beginning()
        rows = sorted(arrow_rows(consumer, 300), key=lambda row: (row["partition"], row["offset"]))
        for row in rows:
            row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
        assert rows == [as_row(record) for record in records]
        assert [consumer.position(tp) for tp in tps] == [150, 150]
        # Records and batches take turns: neither loses or repeats anything.
        consumer.seek(tps[0], 0)
        consumer.seek_to_end(tps[1])
        some = consumer.consume(70, DEADLINE_S)
        rest = arrow_rows(consumer, 80, ("offset",))
        assert [record.offset for record in some] + [row["offset"] for row in rest] == list(range(150))


def test_arrow_batches_of_some_columns(live: Live) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(3))
    with live.consumer() as consumer:
        consumer.assign([(topic, 0)])
        batch = consumer.poll_arrow(DEADLINE_S, ("offset", "value"))
        assert batch is not None
        assert batch.schema == pa.schema([pa.field("offset", pa.int64()), pa.field("value", pa.binary())])
        assert consumer.poll_arrow(0.0) is None
        with pytest.raises(ValueError, match="no column 'size'"):
            consumer.poll_arrow(0.0, ("size",))
        assert list(consumer.read_arrow(timeout=0.0)) == []


def test_seek_pause_and_resume(live: Live) -> None:
    topic = live.topic(2)
    for partition in range(2):
        live.produce(topic, partition, values(20))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with live.consumer(max_poll_records=7) as consumer:
        consumer.assign([first, second])
        consumer.pause(second)
        assert {record.partition for record in take(consumer, 20)} == {0}
        assert consumer.poll(0.3) == []
        assert consumer.paused() == {second}
        consumer.seek(second, 15)
        consumer.resume(second)
        assert [record.offset for record in take(consumer, 5)] == [15, 16, 17, 18, 19]
        assert consumer.position(second) == 20
        assert consumer.lag(second) == 0
        consumer.seek_to_end()
        live.produce(topic, 0, [b"later"])
        assert consumer.position(first) in (20, 21)
        consumer.seek(first, 20)
        assert take(consumer, 1)[0].value == b"later"
        assert consumer.metrics()["records-consumed-total"] == 26


def test_the_ends_and_times(live: Live) -> None:
    topic = live.topic(2)
    live.produce(topic, 0, values(5))
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with live.consumer() as consumer:
        assert consumer.partitions_for(topic) == tps
        assert consumer.beginning_offsets(tps) == {tps[0]: 0, tps[1]: 0}
        assert consumer.end_offsets(tps) == {tps[0]: 5, tps[1]: 0}
        found = consumer.offsets_for_times({tps[0]: 0, tps[1]: 0})
        assert {tp: each and each.offset for tp, each in found.items()} == {tps[0]: 0, tps[1]: None}
        old = TopicPartition(live.topic(message_format_version="0.9.0"), 0)
        assert consumer.offsets_for_times({old: 0}) == {old: None}


def test_an_offset_that_there_is_not(live: Live) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(3))
    tp = TopicPartition(topic, 0)
    with live.consumer() as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 1000)
        assert [record.offset for record in take(consumer, 3)] == [0, 1, 2]
    with live.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-0"):
            consumer.poll(DEADLINE_S)
        consumer.seek(tp, 1000)
        with pytest.raises(PositionOutOfRangeError) as failure:
            consumer.poll(DEADLINE_S)
        assert (failure.value.tp, failure.value.offset) == (tp, 1000)
        consumer.seek(tp, 2)
        assert [record.offset for record in take(consumer, 1)] == [2]


def decode_but_bad(data: bytes) -> str:
    if data == b"bad":
        raise ValueError("bad data")
    return data.decode()


def test_deserializers_and_interceptors(live: Live) -> None:
    class Upper:
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record._replace(value=record.value.upper()) for record in records if record.value]

        def on_commit(self, offsets: Any) -> None:
            raise AssertionError("nothing is committed")

    topic = live.topic()
    live.produce(topic, 0, [b"good"])
    live.produce(topic, 0, [b"bad"])
    properties = live.properties()
    properties |= {"value.deserializer": decode_but_bad, "interceptor.classes": [Upper()], "max.poll.records": 1}
    with Consumer(properties) as consumer:
        consumer.assign([(topic, 0)])
        assert take(consumer, 1)[0].value == "GOOD"  # type: ignore[comparison-overlap]
        for _ in range(2):
            with pytest.raises(ValueError, match="bad data") as failure:
                consumer.poll(DEADLINE_S)
            assert failure.value.__notes__ == [f"deserializing {topic}-0 at offset 1"]
        assert consumer.position(TopicPartition(topic, 0)) == 1


def test_consume_loses_nothing_to_an_error(live: Live) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(20))
    properties = live.properties() | {"value.deserializer": decode_but_bad}
    with Consumer(properties) as consumer:
        consumer.assign([(topic, 0)])
        assert len(consumer.consume(15, DEADLINE_S)) == 15
        # The last five, then a bad one, in a fetch of its own.
        live.produce(topic, 0, [b"bad"])
        rest = take(consumer, 5)
        assert [record.offset for record in rest] == [15, 16, 17, 18, 19]
        with pytest.raises(ValueError, match="bad data"):
            consumer.consume(10, DEADLINE_S)
        assert consumer.position(TopicPartition(topic, 0)) == 20
    with live.consumer() as consumer:
        consumer.assign([(topic, 0)])
        consumer.poll(DEADLINE_S, 1)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.consume(10, DEADLINE_S)
        assert len(consumer.consume(20, DEADLINE_S)) == 20


def test_a_loop_that_ends_early_leaves_the_rest(live: Live) -> None:
    topic = live.topic(2)
    live.produce(topic, 0, values(20))
    live.produce(topic, 1, values(20))
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with live.consumer() as consumer:
        consumer.assign(tps)
        taken: list[ConsumerRecord] = []
        for count in (3, 15, 22):
            for record in consumer:
                taken.append(record)
                if not (count := count - 1):
                    break
            assert sum(consumer.position(tp) for tp in tps) == len(taken)
        assert len(taken) == len(set(taken)) == 40
        consumer.seek_to_beginning()
        for _ in consumer:
            # Where the application goes elsewhere, it stays there.
            for tp in tps:
                consumer.seek(tp, 19)
            break
        assert [consumer.position(tp) for tp in tps] == [19, 19]


def test_wakeup_and_one_thread_at_a_time(live: Live) -> None:
    topic = live.topic()
    with live.consumer() as consumer:
        consumer.assign([(topic, 0)])
        polling = threading.Event()
        failures: list[BaseException] = []

        def poll() -> None:
            polling.set()
            try:
                consumer.poll(DEADLINE_S)
            except WakeupError as error:
                failures.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        polling.wait(DEADLINE_S)
        end = time.monotonic() + DEADLINE_S
        while consumer._single_thread.user is None and time.monotonic() < end:
            time.sleep(0.001)
        with pytest.raises(RuntimeError, match="one thread at a time"):
            consumer.poll(0)
        consumer.wakeup()
        thread.join(DEADLINE_S)
        assert len(failures) == 1
        assert consumer.poll(0) == []
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def test_a_topic_that_does_not_exist_yet(live: Live) -> None:
    name = f"{live.topic()}-later"
    tp = TopicPartition(name, 0)
    with live.consumer() as consumer:
        consumer.assign([tp])
        assert consumer.poll(0.2) == []
        with pytest.raises(ClientTimeoutError):
            consumer.position(tp, 0.1)


def test_what_needs_a_group() -> None:
    with Consumer({"bootstrap.servers": "127.0.0.1:1"}) as consumer:
        for call in (
            lambda: consumer.subscribe(["t"]),
            consumer.commit,
            consumer.group_metadata,
            lambda: consumer.committed([]),
        ):
            with pytest.raises(ConfigError, match=r"group\.id"):
                call()
        with pytest.raises(RuntimeError, match="subscribe to topics, or assign"):
            consumer.poll()

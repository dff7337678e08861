"""Test that an exception of a signal's handler within `Producer.send` harms no other record.

Such an exception comes after a call has returned.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.client.producer.accumulator import Accumulator
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import PartitionQueue
from kafkalog.records.batch import Record, decode_batch, encode_batch
from kafkalog.records.compression import Codec

CONFIG = ProducerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", "linger.ms": 0, "batch.size": 1000})


class Interrupting:
    """Lets methods of a list or deque raise KeyboardInterrupt, once, after they have done their work."""

    is_armed = True

    def append(self, value: Any) -> None:
        super().append(value)  # type: ignore[misc]
        self._interrupt()

    def extend(self, values: Any) -> None:
        super().extend(values)  # type: ignore[misc]
        self._interrupt()

    def _interrupt(self) -> None:
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt


class InterruptingList(Interrupting, list[Any]):
    pass


class InterruptingDeque(Interrupting, deque[Any]):
    pass


class Site:
    """An accumulator with a queue, whose leader is known."""

    def __init__(self, config: ProducerConfig = CONFIG) -> None:
        self.woken = 0
        self.accumulator = Accumulator(config, self.wake)
        self.queue = PartitionQueue("t", 0)
        self.queue.leader = 1

    def wake(self) -> None:
        self.woken += 1

    def send(self, value: bytes, key: bytes | None = None) -> None:
        self.accumulator.append(self.queue, value, 0, key, (), 100 + len(value))

    def put(self, value: bytes) -> None:
        self.accumulator.put(self.queue, encode_batch([Record(0, 0, None, value)]))

    def send_values(self, *values: bytes) -> None:
        ends = [100 * (index + 1) for index in range(len(values))]
        self.accumulator.extend(self.queue, values, ends, 0, 0)

    def delivered(self) -> list[bytes | None]:
        """Have all that waits delivered; return the values."""
        found: list[bytes | None] = []
        while batches := self.accumulator.take(time.monotonic(), True, True, lambda node: 0.0).requests.get(1, []):
            for batch in batches:
                found += [record.value for record in decode_batch(batch.encode(Codec.NONE, None))[1]]
                self.queue.in_flight.remove(batch)
                self.queue.begun = True
            self.accumulator.release(batches)
            for batch in batches:
                batch.complete(0, -1, None)
            self.accumulator.end_release()
        return found


Send = Callable[[Site], None]
SENDS: dict[str, Send] = {
    "plain": lambda site: site.send(b"interrupted"),
    "with a key": lambda site: site.send(b"interrupted", b"k"),
    "many": lambda site: site.send_values(b"interrupted", b"interrupted"),
}


def interrupt(send: Send, site: Site, made: ProducerBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send into `made`, which takes the place of a new batch and raises KeyboardInterrupt."""
    with monkeypatch.context() as patched:
        patched.setattr("kafkalog.client.producer.accumulator.ProducerBatch", lambda *arguments: made)
        with pytest.raises(KeyboardInterrupt):
            send(site)


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("part", ["values", "timestamps", "keys", "headers"])
@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_a_record_whose_call_is_interrupted_is_not_there(
    send: Send, part: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    key = b"k" if part in ("keys", "headers") else None
    for number in range(before):
        site.send(b"%d" % number, key)

    def interrupting(queue: PartitionQueue) -> ProducerBatch:
        batch = queue.open or ProducerBatch("t", 0)
        if key is not None:
            batch.keys, batch.headers = batch.keys or [], batch.headers or []
        setattr(batch, part, InterruptingList(getattr(batch, part)))
        return batch

    made = interrupting(site.queue)
    interrupt(send, site, made, monkeypatch)
    site.send(b"after", key)
    assert site.delivered() == [*(b"%d" % number for number in range(before)), b"after"]
    assert site.accumulator.used == 0
    assert site.accumulator.wait_until_empty(0)


def test_no_empty_batch_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    made = ProducerBatch("t", 0)
    made.values = InterruptingList()
    interrupt(SENDS["plain"], site, made, monkeypatch)
    assert site.accumulator.wait_until_empty(0)
    assert site.delivered() == []


@pytest.mark.parametrize("encoded", [False, True])
def test_a_full_batch_waits_once(encoded: bool) -> None:
    site = Site()
    site.send(b"first")
    site.queue.ready = InterruptingDeque(site.queue.ready)
    interrupted = site.put if encoded else site.send
    with pytest.raises(KeyboardInterrupt):
        interrupted(bytes(950))
    site.send(b"after")
    assert site.delivered() == [b"first", b"after"]
    assert site.accumulator.used == 0
    assert site.accumulator.wait_until_empty(0)


def test_the_sender_is_woken_by_the_next_call() -> None:
    site = Site()
    signals = [KeyboardInterrupt()]

    def interrupted() -> None:
        if signals:
            raise signals.pop()
        site.woken += 1

    accumulator = site.accumulator = Accumulator(CONFIG, interrupted)
    accumulator.take(time.monotonic(), True, True, lambda node: 0.0)
    with pytest.raises(KeyboardInterrupt):
        site.send(bytes(950))
    assert not site.woken
    site.send(bytes(950))
    assert site.woken

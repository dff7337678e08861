"""Test that large Produce requests do not hold the event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from broker.api.produce import produce
from broker.api.produce.deferred import DeferredAppend
from broker.api.produce.produce import Produce
from broker.net.framing import HANDED_OVER_FROM
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.records.batch import decode_batch, iter_headers
from kafkalog.records.compression import Codec
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.wire import batch, fetch_request, produce_request

SIZE = 1 << 20


def request(letter: bytes, topics: list[str], codec: Codec) -> ProduceRequest:
    """Return a request of one batch for each topic."""
    made = produce_request(topics[0], {}, -1)
    made.topic_data = [
        produce_request(topic, {0: batch([letter * (SIZE + number)], codec=codec)}).topic_data[0]
        for number, topic in enumerate(topics)
    ]
    return made


@pytest.mark.parametrize(
    ("count", "codec", "are_copied"), [(HANDED_OVER_FROM // SIZE + 6, Codec.NONE, False), (6, Codec.LZ4, True)]
)
def test_batches_that_wait_for_a_worker_stay_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, codec: Codec, are_copied: bool
) -> None:
    """A large request's are not copied. The next one comes into the connection's buffer meanwhile."""
    copies: list[DeferredAppend] = []
    keep = DeferredAppend.keep

    def noted(work: DeferredAppend) -> None:
        copies.append(work)
        keep(work)

    monkeypatch.setattr(DeferredAppend, "keep", noted)

    async def work(broker: InProcess) -> None:
        topics = [f"t{number}" for number in range(count)]
        for topic in topics:
            await broker.create_topic(topic, max_message_bytes=str(2 * SIZE))
        wire = await broker.connect()
        requests = [request(letter, topics, codec) for letter in (b"a", b"b", b"c")]
        wire.send_bytes(b"".join(encode_request(each, 9, 1, "wire-test") for each in requests))
        for each in requests:
            answer = await wire.receive(each, 9)
            codes = {result.error_code for topic in answer.responses for result in topic.partition_responses}
            assert codes == {ErrorCode.NONE}
        assert bool(copies) == are_copied
        for number, topic in enumerate(topics):
            found = await wire.exchange(fetch_request(topic, {0: 0}, partition_max_bytes=4 * SIZE), 12)
            stored = found.responses[0].partitions[0].records
            values = [record.value for at, _ in iter_headers(stored) for record in decode_batch(stored, at)[1]]
            assert values == [letter * (SIZE + number) for letter in (b"a", b"b", b"c")]

    with_broker(tmp_path, work)


@pytest.mark.parametrize(("partitions", "in_turns"), [(100, False), (300, True)])
def test_many_batches_are_appended_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, in_turns: bool
) -> None:
    """A batch takes some 14 microseconds, and each of many connections may send such a request."""
    served: list[Any] = []
    serve = produce._serve_in_turns

    def noted(made: Produce) -> Awaitable[None]:
        served.append(made)
        return serve(made)

    monkeypatch.setattr(produce, "_serve_in_turns", noted)

    async def work(broker: InProcess) -> None:
        await broker.create_topic("t")
        wire = await broker.connect()
        asked = produce_request("t", {index: batch([b"v"]) for index in range(partitions)}, -1)
        answer = await wire.exchange(asked, 9)
        codes = [result.error_code for result in answer.responses[0].partition_responses]
        assert codes == [ErrorCode.NONE] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (partitions - 1)
        assert bool(served) == in_turns

    with_broker(tmp_path, work)

"""A Produce request that names a partition more than once has its last entry appended, as with Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.api.produce.repeated import drop_repeated
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.records.batch import decode_batch, iter_headers
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.wire import batch, fetch_request, produce_request


def repeated(others: int) -> ProduceRequest:
    """Return a request with partition 0 of `t` three times, in two entries of the topic, and with other partitions."""
    made = produce_request("t", {0: batch([b"first"])}, -1)
    for topic, value in (("u", b"other"), ("t", b"second"), ("t", b"last")):
        made.topic_data += produce_request(topic, {0: batch([value])}, -1).topic_data
    last = made.topic_data.pop()
    made.topic_data[-1].partition_data += last.partition_data
    made.topic_data += produce_request("t", {1 + index: batch([b"v"]) for index in range(others)}, -1).topic_data
    return made


@pytest.mark.parametrize("others", [1, 300], ids=["small", "served in turns"])
def test_the_last_entry_of_a_partition_is_appended(tmp_path: Path, others: int) -> None:
    async def work(broker: InProcess) -> None:
        await broker.create_topic("t")
        await broker.create_topic("u")
        wire = await broker.connect()
        answer = await wire.exchange(repeated(others), 9)
        assert [topic.name for topic in answer.responses] == ["t", "u"]
        first, *rest = answer.responses[0].partition_responses
        for result in (first, *answer.responses[1].partition_responses):
            assert (result.index, result.error_code, result.base_offset) == (0, 0, 0)
        assert [(result.index, result.error_code) for result in rest] == [
            (1 + index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in range(others)
        ]
        for topic, value in (("t", b"last"), ("u", b"other")):
            found = await wire.exchange(fetch_request(topic, {0: 0}), 12)
            data = found.responses[0].partitions[0].records
            assert [record.value for at, _ in iter_headers(data) for record in decode_batch(data, at)[1]] == [value]

    with_broker(tmp_path, work)


def test_the_entries_that_are_dropped_are_freed_a_few_at_a_time() -> None:
    """There may be hundreds of thousands, and no other thread runs while they are freed at once."""
    made = repeated(3)
    topics, entries = made.topic_data, made.topic_data[0].partition_data
    drop_repeated(made)
    assert (topics, entries) == ([], [])
    assert [(topic.name, [data.index for data in topic.partition_data]) for topic in made.topic_data] == [
        ("t", [0, 1, 2, 3]),
        ("u", [0]),
    ]

"""Test that foreign clients consume, to the byte, what a foreign client produced."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from peers.clients.base import ForeignClient, Record
from tests.foreign.conftest import client_codec_params, client_params
from tests.foreign.records import BASE_TIME, KEEP, RECORDS, placed, records_for, without_times

ALL = pytest.mark.parametrize("client", client_params(), indirect=True)


def same(got: list[Record], wanted: list[Record], client: ForeignClient) -> bool:
    if "timestamps" in client.features:
        return got == wanted
    return without_times(got) == without_times(wanted)


@pytest.mark.parametrize(("client", "codec"), client_codec_params(), indirect=["client"])
def test_consumes_what_it_produced(client: ForeignClient, referee: ForeignClient, topic: str, codec: str) -> None:
    referee.create_topic(topic, config=KEEP)
    records = records_for(client)
    offsets = client.produce(topic, 0, records, codec=codec, idempotent="idempotent" in client.features)
    assert offsets in (list(range(len(records))), [-1] * len(records))
    assert same(client.consume(topic, 0, 0, len(records)), placed(records), client)
    assert same(referee.consume(topic, 0, 0, len(records)), placed(records), client)


@pytest.mark.parametrize("client", client_params("acks_0"), indirect=True)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks(client: ForeignClient, referee: ForeignClient, topic: str, acks: str) -> None:
    referee.create_topic(topic, config=KEEP)
    records = records_for(client)
    offsets = client.produce(topic, 0, records, acks=acks)
    if acks != "0" and client.name != "kcat":
        assert offsets == list(range(len(records)))
    # acks=0 is not waited for; the referee's read waits until the records are there
    assert same(referee.consume(topic, 0, 0, len(records)), placed(records), client)


@pytest.fixture(scope="module")
def written(bootstrap: str, connected: Callable[[str], ForeignClient]) -> Callable[[str], tuple[str, int]]:
    """(topic, end offset) holding RECORDS three times in one codec, made by librdkafka on first need."""
    made: dict[str, tuple[str, int]] = {}

    def topic_of(codec: str) -> tuple[str, int]:
        if codec not in made:
            writer = connected("librdkafka")
            name = f"foreign-{codec}-{uuid.uuid4().hex[:8]}"
            writer.create_topic(name, config=KEEP)
            for _ in range(3):
                writer.produce(name, 0, RECORDS, codec=codec, idempotent=True)
            made[codec] = (name, 3 * len(RECORDS))
        return made[codec]

    return topic_of


@pytest.mark.parametrize(("client", "codec"), client_codec_params("timestamps"), indirect=["client"])
def test_reads_what_librdkafka_wrote(
    client: ForeignClient, written: Callable[[str], tuple[str, int]], codec: str
) -> None:
    topic, end = written(codec)
    wanted = placed((*RECORDS, *RECORDS, *RECORDS))
    assert client.consume(topic, 0, 0, end) == wanted
    # From the middle of a batch, and to the middle of another
    assert client.consume(topic, 0, 7, end - 9) == wanted[7 : end - 9]


@ALL
def test_several_produce_calls_follow_each_other(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    """Several produce calls one after another keep their order and follow each other without a gap."""
    referee.create_topic(topic, config=KEEP)
    records = records_for(client)[-50:]
    for _ in range(4):
        client.produce(topic, 0, records)
    wanted = placed(records * 4)
    assert same(client.consume(topic, 0, 0, 200), wanted, client)


@pytest.mark.parametrize("client", client_params("timestamps"), indirect=True)
def test_partitions_are_apart(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, partitions=3, config=KEEP)
    for partition, count in ((0, 5), (2, 7)):
        records = [Record(None, b"p%d" % partition, (), BASE_TIME + i) for i in range(count)]
        assert client.produce(topic, partition, records) == list(range(count))
    assert [r.value for r in client.consume(topic, 0, 0, 5)] == [b"p0"] * 5
    assert [r.value for r in client.consume(topic, 2, 0, 7)] == [b"p2"] * 7
    assert referee.list_offset(topic, 1, "latest")[0] == 0


@pytest.mark.parametrize("client", client_params("consume_all"), indirect=True)
def test_one_consumer_of_many_partitions(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    """Records reach a consumer that waits for them, in partitions that were quiet while others were not."""
    count = 40
    referee.create_topic(topic, partitions=count, config=KEEP)
    rounds = [[partition for partition in range(count) if partition % step == 0] for step in (2, 5, 1, 7)]
    ends = [sum(partition in each for each in rounds) for partition in range(count)]
    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(client.consume_all, topic, ends)
        for partition in itertools.chain(*rounds):
            referee.produce(topic, partition, [Record(None, b"x", (), BASE_TIME)])
        assert consumed.result(60) == [list(range(end)) for end in ends]


@pytest.mark.parametrize("client", client_params("timestamps"), indirect=True)
def test_log_append_time(client: ForeignClient, referee: ForeignClient, topic: str) -> None:
    """The broker's clock replaces the producer's, in a compressed batch too."""
    referee.create_topic(topic, config={"message.timestamp.type": "LogAppendTime", **KEEP})
    client.produce(topic, 0, RECORDS[:20], codec="gzip")
    got = client.consume(topic, 0, 0, 20)
    times = {record.timestamp for record in got}
    assert [replace(r, timestamp=None) for r in got] == without_times(placed(RECORDS[:20]))
    assert min(t for t in times if t is not None) > BASE_TIME + 86_400_000
    assert len(times) <= 20

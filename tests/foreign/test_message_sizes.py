"""Tests of the largest batches and fetches, on the wire and by the consumer's own limits.

Our broker and Apache Kafka answer the same.
"""

from __future__ import annotations

import random
import socket
import uuid
from collections.abc import Callable, Iterator

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.low_level_consumer import (
    FETCH_SIZE,
    MAX_FETCH_SIZE,
    NEWEST,
    LowLevelConsumer,
    MessageSizeTooLargeError,
)
from kafkalog.protocol.errors import ErrorCode, OffsetOutOfRangeError
from kafkalog.records.batch import iter_headers
from kafkalog.records.compression import Codec
from tests.support.wire import batch, create_topic, fetch, produce

pytestmark = pytest.mark.timeout(600)
OLD, NEW = 2, 12
LIMIT = 2000
NO_LEADER_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@pytest.fixture
def topic(wire: socket.socket) -> str:
    name = f"low-level-{uuid.uuid4().hex[:12]}"
    create_topic(wire, name, 1, retention_ms="-1")
    return name


@pytest.fixture
def make(address: str) -> Iterator[Callable[..., LowLevelConsumer]]:
    made: list[LowLevelConsumer] = []

    def consumer(
        fetch_size: int = FETCH_SIZE, max_fetch_size: int = MAX_FETCH_SIZE, max_version: int = NEWEST
    ) -> LowLevelConsumer:
        config = ClientConfig.from_dict({"bootstrap.servers": address, "fetch.max.wait.ms": "100"})
        made.append(
            LowLevelConsumer(config, fetch_size=fetch_size, max_fetch_size=max_fetch_size, max_version=max_version)
        )
        return made[-1]

    yield consumer
    for each in made:
        each.close()


Make = Callable[..., LowLevelConsumer]


def produced(
    wire: socket.socket, topic: str, values: list[bytes | None], codec: Codec = Codec.NONE, partition: int = 0
) -> None:
    """Produce a batch, once the partition has a leader."""
    while (answer := produce(wire, topic, batch(values, codec=codec), partition)).error_code:
        assert answer.error_code in NO_LEADER_YET, answer.error_code


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 11, 12])
def test_every_version_brings_every_message(make: Make, wire: socket.socket, topic: str, version: int) -> None:
    values: list[bytes | None] = [b"%d" % i * 50 for i in range(40)]
    for at in range(0, 40, 10):
        produced(wire, topic, values[at : at + 10], Codec.GZIP if at == 20 else Codec.NONE)
    consumer = make(fetch_size=900, max_version=version)
    assert [(r.offset, r.value) for r in consumer.messages(topic, 0, 0)] == list(enumerate(values))
    assert [r.offset for r in consumer.messages(topic, 0, 17)] == list(range(17, 40))
    assert list(consumer.messages(topic, 0, 40)) == []


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_message_that_does_not_fit_is_asked_for_with_more(
    make: Make, wire: socket.socket, topic: str, version: int, codec: Codec
) -> None:
    large = random.Random(1).randbytes(100_000)
    produced(wire, topic, [b"small"])
    produced(wire, topic, [large], codec)
    produced(wire, topic, [b"behind"])
    consumer = make(fetch_size=100, max_version=version)
    found = consumer.fetch(topic, 0, 1).raise_error()
    assert next(iter(found)).value == large
    assert found.next_offset >= 2
    if version == NEW:
        assert found.fetch_size == 100
    else:
        # Twice as much, and twice again.
        assert found.fetch_size in (100 << shift for shift in range(30))
        assert 100_000 < found.fetch_size < 400_000
    assert [record.value for record in consumer.messages(topic, 0, 0)] == [b"small", large, b"behind"]


def test_more_than_it_may_ask_for_is_an_error_that_names_the_option(
    make: Make, wire: socket.socket, topic: str
) -> None:
    produced(wire, topic, [b"x" * 50_000])
    consumer = make(fetch_size=1000, max_fetch_size=20_000, max_version=OLD)
    with pytest.raises(MessageSizeTooLargeError, match=r"offset 0 of .*: raise max_fetch_size"):
        consumer.fetch(topic, 0, 0)
    # Since Fetch 3 it comes in whole.
    assert make(fetch_size=1000, max_fetch_size=20_000).fetch(topic, 0, 0).valid_bytes > 50_000


def test_a_piece_at_the_end_is_left_for_the_next_fetch(make: Make, wire: socket.socket, topic: str) -> None:
    for number in range(5):
        produced(wire, topic, [b"%d" % number * 300])
    consumer = make(fetch_size=1000, max_version=NEW)
    found = consumer.fetch(topic, 0, 0)
    assert len(found) == 1000
    assert 0 < found.valid_bytes < 1000
    assert [record.offset for record in found] == list(range(found.next_offset))
    assert found.high_watermark == 5


def test_what_the_broker_says_comes_with_the_set(make: Make, wire: socket.socket, topic: str) -> None:
    produced(wire, topic, [b"x"])
    found = make().fetch(topic, 0, 99)
    assert isinstance(found.error, OffsetOutOfRangeError)
    assert len(found) == 0
    with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 99"):
        found.raise_error()


def test_offsets_before_a_time(make: Make, wire: socket.socket, topic: str) -> None:
    for _ in range(3):
        produced(wire, topic, [b"x"])
    consumer = make()
    assert consumer.get_offsets_before(topic, 0, -1, 10) == [3, 0]
    assert consumer.get_offsets_before(topic, 0, -1) == [3]
    assert consumer.get_offsets_before(topic, 0, -2, 10) == [0]
    assert consumer.get_offsets_before(topic, 0, 1, 10) == []


def test_options_that_cannot_be(make: Make) -> None:
    for options in ({"fetch_size": 0}, {"fetch_size": 2, "max_fetch_size": 1}, {"max_version": 13}):
        with pytest.raises(ValueError, match=next(iter(options))):
            make(**options)


# -- limits --------------------------------------------------------------------------------------------------


@pytest.fixture
def limited(wire: socket.socket) -> str:
    """A topic of three partitions, a record in each, that takes batches of LIMIT bytes at most."""
    name = f"limited-{uuid.uuid4().hex[:12]}"
    create_topic(wire, name, 3, max_message_bytes=str(LIMIT), retention_ms="-1")
    for partition in range(3):
        produced(wire, name, [b"first"], partition=partition)
    return name


def of_size(size: int) -> bytearray:
    """A batch of so many bytes in all."""
    length = size - len(batch([b"x" * 200])) + 200
    made = batch([b"x" * length])
    assert len(made) == size
    return made


@pytest.mark.parametrize("version", [3, 9])
def test_a_batch_at_the_limit_is_taken_and_one_beyond_it_refused(
    wire: socket.socket, limited: str, version: int
) -> None:
    answers = {size: produce(wire, limited, of_size(size), version=version) for size in (LIMIT - 1, LIMIT, LIMIT + 1)}
    assert {size: answer.error_code for size, answer in answers.items()} == {
        LIMIT - 1: ErrorCode.NONE,
        LIMIT: ErrorCode.NONE,
        LIMIT + 1: ErrorCode.MESSAGE_TOO_LARGE,
    }
    assert answers[LIMIT + 1].base_offset == -1
    assert produce(wire, limited, of_size(300)).base_offset == 3


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_batch_counts_as_it_is_sent(wire: socket.socket, limited: str, codec: Codec) -> None:
    assert produce(wire, limited, batch([b"y" * 4 * LIMIT], codec=codec)).error_code == ErrorCode.NONE
    noise = random.Random(2).randbytes(LIMIT + 100)
    assert produce(wire, limited, batch([noise], codec=codec)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def sizes(wire: socket.socket, limited: str, offsets: dict[int, int], **limits: int) -> dict[int, int]:
    """Bytes that a fetch brings of each partition."""
    return {index: len(data.records or b"") for index, data in fetch(wire, limited, offsets, **limits).items()}


@pytest.mark.parametrize("version", [4, 11, 12])
def test_only_the_first_batch_of_all_comes_whole_beyond_the_limits(
    wire: socket.socket, limited: str, version: int
) -> None:
    for partition in (1, 2):
        produce(wire, limited, of_size(1500), partition)
        produce(wire, limited, of_size(1400), partition)
    # The first partition has nothing at its end, the second's batch is whole, of the third's there is no piece.
    offsets = {0: 1, 1: 1, 2: 1}
    small = {"version": version, "partition_max_bytes": 100}
    assert sizes(wire, limited, offsets, **small) == {0: 0, 1: 1500, 2: 0}
    assert sizes(wire, limited, offsets, **small, max_bytes=100) == {0: 0, 1: 1500, 2: 0}
    assert sizes(wire, limited, offsets, version=version, max_bytes=1000) == {0: 0, 1: 1500, 2: 0}
    assert sizes(wire, limited, {2: 1, 1: 1}, **small) == {2: 1500, 1: 0}


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_ends_where_its_limit_is(wire: socket.socket, limited: str, version: int) -> None:
    """With a piece of a batch, which the client leaves for the next fetch; what the first took, the second lacks."""
    for partition in (1, 2):
        for _ in range(5):
            produce(wire, limited, of_size(500), partition)
    offsets = {1: 1, 2: 1}
    assert sizes(wire, limited, offsets, version=version, partition_max_bytes=1200) == {1: 1200, 2: 1200}
    assert sizes(wire, limited, offsets, version=version, max_bytes=3200) == {1: 2500, 2: 700}
    # Too little is left for a whole batch: nothing, not a piece of the first.
    assert sizes(wire, limited, offsets, version=version, max_bytes=2700) == {1: 2500, 2: 0}
    data = fetch(wire, limited, {1: 1}, version, partition_max_bytes=1200)[1].records
    assert [header.base_offset for _, header in iter_headers(data)] == [1, 2]

"""Tests of the client's side of a connection without a socket: requests, hostile bytes, and a model of it."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.protocol.codec import EncodeError
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkalog.protocol.schema import Response
from kafkalog.protocol.wire.core import Answer, Handshake, State, Wire
from kafkalog.protocol.wire.errors import ConnectionEndedError, RemoteProtocolError
from kafkalog.protocol.wire.sasl import Plain
from tests.kafkalog.protocol.wire.support import (
    EVERYTHING,
    LIMIT,
    answer,
    asked,
    feed,
    make_wire,
    metadata_of,
    ready_wire,
)

# Requests and responses


def test_records_are_neither_copied_on_the_way_in_nor_for_the_event() -> None:
    wire = ready_wire()
    chunks = wire.send(FetchRequest(), 11)
    data = PartitionData(records=b"\xab" * 700_000)
    stream = answer(chunks, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])]))
    wire.space()[:4] = stream[:4]
    assert wire.received(4) is None
    space = wire.space()
    assert len(space) == len(stream) - 4
    space[:] = stream[4:]
    event = wire.received(len(space))
    assert isinstance(event, Answer)
    records = event.message.responses[0].partitions[0].records
    assert records.obj is space.obj
    assert bytes(records) == b"\xab" * 700_000


def test_a_buffer_is_used_again_but_never_under_a_reader() -> None:
    wire = ready_wire()

    def fetch(fill: int) -> memoryview:
        chunks = wire.send(FetchRequest(), 11)
        data = PartitionData(records=bytes([fill]) * 100_000)
        [event] = feed(
            wire, answer(chunks, FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])]))
        )
        records: memoryview = event.message.responses[0].partitions[0].records
        return records

    held = [fetch(number) for number in range(5)]
    pieces = [view[10:20] for view in held]
    del held
    for number in range(5, 10):
        fetch(number)
    assert [bytes(piece) for piece in pieces] == [bytes([number]) * 10 for number in range(5)]
    pieces.clear()
    assert len({id(fetch(number).obj) for number in range(10)}) <= 2


def test_a_value_that_does_not_fit_changes_nothing() -> None:
    wire = ready_wire()
    with pytest.raises(EncodeError):
        wire.send(HeartbeatRequest(group_id="g", generation_id=1 << 40, member_id="m"), 4)
    assert wire.in_flight == 0
    chunks = wire.send(MetadataRequest(), 9)
    assert asked(chunks)[2] == 1
    [event] = feed(wire, answer(chunks, metadata_of(7)))
    assert event.message.brokers[0].node_id == 7


def test_correlation_ids_begin_again_after_the_last() -> None:
    wire = ready_wire()
    wire._correlation_id = 0x7FFFFFFF
    chunks = [wire.send(MetadataRequest(), 9) for _ in range(3)]
    assert [asked(each)[2] for each in chunks] == [0x7FFFFFFF, 0, 1]
    events = feed(wire, b"".join(answer(each, metadata_of(number)) for number, each in enumerate(chunks)))
    assert [event.correlation_id for event in events] == [0x7FFFFFFF, 0, 1]


def test_the_end_of_the_stream_says_where_it_came() -> None:
    for send, begin, match in (
        (False, 0, "closed the connection$"),
        (True, 0, "closed the connection instead of answering"),
        (True, 3, "closed the connection in the middle of a response"),
        (True, 9, "closed the connection in the middle of a response"),
    ):
        wire = ready_wire()
        if send:
            feed(wire, answer(wire.send(MetadataRequest(), 9), metadata_of(1))[:begin])
        with pytest.raises(ConnectionEndedError, match=match):
            wire.received(0)
        assert wire.state is State.CLOSED
        assert wire.in_flight == 0


# Any split of the stream


@given(data=st.data(), count=st.integers(1, 6))
def test_any_split_of_the_stream_gives_the_same_events(data: st.DataObject, count: int) -> None:
    def stream(wire: Wire) -> bytes:
        chunks = [wire.send(MetadataRequest(), 9) for _ in range(count)]
        good = b"".join(answer(each, metadata_of(number)) for number, each in enumerate(chunks))
        return good + tail

    tail = data.draw(st.sampled_from([b"", b"\0", b"\0\0\0\x04\0\0\0\x63", b"\x7f\xff\xff\xff"]))
    whole = ready_wire()
    expected = feed(whole, stream(whole))
    assert len([event for event in expected if isinstance(event, Answer)]) == count
    split = ready_wire()
    sizes = data.draw(st.lists(st.integers(1, 40), max_size=400))
    found = feed(split, stream(split), sizes)
    assert [repr(event) for event in found] == [repr(event) for event in expected]
    assert split.state is whole.state is (State.CLOSED if tail else State.READY)


def test_one_byte_at_a_time() -> None:
    wire = make_wire(Plain("alice", "secret"))
    one = [1] * 10_000
    assert feed(wire, answer(wire.begin(), EVERYTHING), one) == [Handshake()]
    assert feed(wire, answer(wire.proceed(), SaslHandshakeResponse()), one) == [Handshake()]
    assert feed(wire, answer(wire.proceed(), SaslAuthenticateResponse()), one) == [Handshake()]
    assert wire.proceed() == []
    [event] = feed(wire, answer(wire.send(HeartbeatRequest(), 4), HeartbeatResponse(error_code=27)), one)
    assert event.message.error_code == 27


# Hostile streams


@pytest.mark.parametrize("size", [LIMIT + 1, 0x7FFFFFFF, -1, -0x80000000, 0, 3])
def test_a_length_that_lies_is_refused_before_memory_is_taken(size: int) -> None:
    wire = ready_wire()
    wire.send(MetadataRequest(), 9)
    tracemalloc.start()
    [error] = feed(wire, struct.pack(">i", size))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"announces a response of {size} bytes; at most {LIMIT} are accepted (a.limit)" in str(error)
    assert peak < 100_000


def test_bytes_that_nobody_asked_for_are_refused_before_memory_is_taken() -> None:
    for data in (b"\0", struct.pack(">i", LIMIT), answer(ready_wire().send(MetadataRequest(), 9), metadata_of(1))):
        wire = ready_wire()
        [error] = feed(wire, data)
        assert "where no response was due" in str(error)
        assert wire.state is State.CLOSED


def test_a_response_out_of_its_order_is_refused() -> None:
    wire = ready_wire()
    first, second = (wire.send(MetadataRequest(), 9) for _ in range(2))
    [error] = feed(wire, answer(second, metadata_of(2)) + answer(first, metadata_of(1)))
    assert "answered request 2, where 1 was next" in str(error)
    assert wire.in_flight == 0


def mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(4):
            case 0:
                out[at : at + 1] = chance.randbytes(1)
            case 1:
                out[at : at + 4] = chance.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\x0f\xff\xff"])
            case 2:
                del out[at : at + chance.randint(1, 8)]
            case _:
                out[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(out)


@pytest.mark.parametrize("seed", range(40))
def test_hostile_streams_end_in_events_or_a_remote_error(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        wire = make_wire(Plain("alice", "secret"))
        responses: list[Response] = [EVERYTHING, SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"x")]
        chunks = wire.begin()
        try:
            while chunks:
                data = answer(chunks, responses.pop(0))
                events = feed(wire, mutated(data, chance) if chance.random() < 0.2 else data)
                if not events or not isinstance(events[-1], Handshake):
                    break
                chunks = wire.proceed()
            if wire.state is State.READY:
                sent = [wire.send(MetadataRequest(), 9) for _ in range(chance.randint(1, 5))]
                good = b"".join(answer(each, metadata_of(number)) for number, each in enumerate(sent))
                feed(wire, mutated(good, chance), [chance.randint(1, 30) for _ in range(30)])
        except (RemoteProtocolError, UnsupportedVersionError):
            assert wire.state is State.CLOSED
            continue
        if wire.state is not State.CLOSED:
            assert len(wire.space()) <= LIMIT


# A model of requests in flight


@pytest.mark.parametrize("seed", range(60))
def test_requests_in_flight_are_those_of_the_model(seed: int) -> None:
    """Random sends, deliveries whole and in pieces, and one fault at the end, beside a queue that says what is due."""
    chance = random.Random(seed)
    wire = ready_wire()
    due: deque[tuple[int, bytes, int]] = deque()
    """(correlation id, the response's bytes, the number that it carries) of requests in flight."""
    partial = b""
    """The rest of the oldest response, of which some was delivered."""
    next_id = 1
    for number in range(200):
        action = chance.random()
        if action < 0.4:
            chunks = wire.send(MetadataRequest(), 9)
            assert asked(chunks)[2] == next_id
            due.append((next_id, answer(chunks, metadata_of(number)), number))
            next_id += 1
        elif action < 0.5:
            assert asked(wire.send(MetadataRequest(), 9, answered=False))[2] == next_id
            next_id += 1
        elif due:
            data = partial or due[0][1]
            cut = chance.choice([len(data), chance.randint(1, len(data))])
            events = feed(wire, data[:cut])
            partial = data[cut:]
            if partial:
                assert events == []
            else:
                correlation_id, _, carried = due.popleft()
                [event] = events
                assert (event.correlation_id, event.message.brokers[0].node_id) == (correlation_id, carried)
        assert wire.in_flight == len(due)
        assert wire.awaited == ("METADATA" if due else "nothing")
    assert next_id > 50
    if due:
        wrong = partial or due[0][1]
        if partial:
            feed(wire, wrong)
            due.popleft()
        wrong_id = chance.choice([next_id + 5, -1])
        wrong = struct.pack(">ii", 40, wrong_id) + bytes(36)
        [error] = feed(wire, wrong)
        expected = f"answered request {wrong_id}, where {due[0][0]} was next" if due else "no response was due"
        assert expected in str(error)
    else:
        [error] = feed(wire, b"\0")
        assert "no response was due" in str(error)
    assert (wire.state, wire.in_flight) == (State.CLOSED, 0)

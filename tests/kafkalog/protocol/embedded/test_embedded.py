"""Tests of the embedded consumer protocol: the Java client's bytes, hostile bytes, newer versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.protocol.codec import ProtocolError, TooManyEntriesError
from kafkalog.protocol.embedded.consumer import (
    NEWEST,
    NO_GENERATION,
    ConsumerAssignment,
    ConsumerSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
    version_of,
)
from kafkalog.protocol.embedded.sticky import (
    StickyUserData,
    decode_generation,
    decode_sticky,
    encode_generation,
    encode_sticky,
)
from tests.kafkalog.protocol.support import values

GOLDEN = {
    (name, int(version)): bytes.fromhex(data)
    for name, version, data in map(
        str.split, (Path(__file__).parents[1] / "golden" / "embedded.txt").read_text().splitlines()
    )
}
ORDERS = TopicPartitions(topic="orders", partitions=[2, 0])
SINCE = {"owned_partitions": 1, "generation_id": 2, "rack_id": 3}
VERSIONS = range(NEWEST + 1)

MOST = 1000
"""Topics that are read of a subscription."""


def subscription_in(version: int, **fields: Any) -> ConsumerSubscription:
    """A subscription as a reader of this version finds it."""
    return ConsumerSubscription(**{name: value for name, value in fields.items() if SINCE.get(name, 0) <= version})


@pytest.mark.parametrize("version", VERSIONS)
def test_java_bytes(version: int) -> None:
    partitions = [TopicPartitions(topic="grüße", partitions=[1]), TopicPartitions(topic="orders", partitions=[0, 2])]
    full: dict[str, Any] = {
        "topics": ["grüße", "orders"], "user_data": b"its own", "owned_partitions": partitions,
        "generation_id": 7, "rack_id": "rack-1",
    }  # fmt: skip
    given_ = ConsumerAssignment(
        assigned_partitions=[ORDERS, TopicPartitions(topic="grüße", partitions=[1])], user_data=b"its own"
    )
    for name, subscription in (
        ("subscription", subscription_in(version, **full)),
        ("least-subscription", ConsumerSubscription()),
    ):
        data = GOLDEN[name, version]
        assert encode_subscription(subscription, version) == data
        assert decode_subscription(data) == subscription
        assert version_of(data) == version
        assert subscribed_topics(data, MOST) == frozenset(subscription.topics)
    for name, assignment in (("assignment", given_), ("least-assignment", ConsumerAssignment())):
        assert encode_assignment(assignment, version) == GOLDEN[name, version]
        assert decode_assignment(GOLDEN[name, version]) == assignment


def test_java_user_data_of_sticky_assignors() -> None:
    had = StickyUserData(previous_assignment=[ORDERS], generation=7)
    assert encode_sticky(had) == GOLDEN["sticky", 1]
    assert decode_sticky(GOLDEN["sticky", 1]) == (had, 1)
    # Members of releases before KIP-341's did not tell their generation.
    older = encode_sticky(had, 0)
    assert decode_sticky(older) == (StickyUserData(previous_assignment=[ORDERS], generation=NO_GENERATION), 0)
    assert encode_generation(7) == GOLDEN["cooperative-sticky", 0]
    assert decode_generation(GOLDEN["cooperative-sticky", 0] + b"more") == 7


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_round_trip(data: st.DataObject, version: int) -> None:
    subscription = data.draw(values(ConsumerSubscription, version))
    assert decode_subscription(encode_subscription(subscription, version)) == subscription
    assignment = data.draw(values(ConsumerAssignment, version))
    assert decode_assignment(encode_assignment(assignment, version)) == assignment
    had = data.draw(values(StickyUserData, 1))
    assert decode_sticky(encode_sticky(had)) == (had, 1)


@given(subscription=values(ConsumerSubscription, NEWEST), assignment=values(ConsumerAssignment, NEWEST))
def test_newer_versions_are_read_as_the_newest_known(
    subscription: ConsumerSubscription, assignment: ConsumerAssignment
) -> None:
    def newer(data: bytes) -> bytes:
        return b"\x00\x09" + data[2:] + b"of a later version"

    assert version_of(newer(encode_subscription(subscription))) == NEWEST
    assert decode_subscription(newer(encode_subscription(subscription))) == subscription
    assert decode_assignment(newer(encode_assignment(assignment))) == assignment


@given(data=st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"\x00\x01" + data))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for decode in (version_of, decode_subscription, decode_assignment, decode_sticky, decode_generation):
        try:
            decode(data)
        except ProtocolError:
            continue
    subscribed_topics(data, MOST)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begins with a version of 2 bytes, and there are 0"),
        (b"\x00", "begins with a version of 2 bytes, and there are 1"),
        (b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", "has no version -1"),
        # 2**31 - 1 topics, and no bytes of them.
        (b"\x00\x00\x7f\xff\xff\xff", "is no (subscription|assignment)"),
        (GOLDEN["subscription", 0][:-1], "is no (subscription|assignment)"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes, message: str) -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(ProtocolError, match=message):
            decode(data)


def test_so_many_entries_are_decoded() -> None:
    subscription = ConsumerSubscription(topics=["a"] * 40, owned_partitions=[ORDERS] * 20)
    assert decode_subscription(encode_subscription(subscription), 100) == subscription
    assignment = ConsumerAssignment(assigned_partitions=[ORDERS] * 30)
    assert decode_assignment(encode_assignment(assignment), 100) == assignment
    with pytest.raises(TooManyEntriesError):
        decode_subscription(encode_subscription(subscription), 50)
    with pytest.raises(TooManyEntriesError):
        decode_assignment(encode_assignment(assignment), 50)
    with pytest.raises(ProtocolError, match="is no assignment"):
        decode_assignment(encode_assignment(assignment)[:-1], 100)


def test_topics_of_a_subscription() -> None:
    data = GOLDEN["subscription", 3]
    topics = frozenset({"grüße", "orders"})
    # What follows the fields of version 0 may be damaged.
    end = len(GOLDEN["subscription", 0])
    assert subscribed_topics(data[:end], MOST) == topics
    assert subscribed_topics(data[: end - 1], MOST) is None
    assert subscribed_topics(b"", MOST) is None
    # A coordinator does not read more of them than one turn is long enough for.
    three = encode_subscription(ConsumerSubscription(topics=["a", "b" * 30_000, "a"], user_data=bytes(10_000)))
    assert subscribed_topics(three, 3) == frozenset({"a", "b" * 30_000})
    assert subscribed_topics(three, 2) is None
    assert subscribed_topics(b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", MOST) is None

"""The follower's side of fetch sessions, against the leader's side of this broker."""

from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.api.fetch.fetch_session import FetchSessionCache
from broker.replica.fetching.fetchers import fetcher_number
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.wire.fetch_session import FetchSessionHandler, PartitionKey, Wanted

IDS = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}
NO_ID = uuid.UUID(int=0)
KEYS = [(topic, index) for topic in IDS for index in range(3)]
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3)),
        st.sampled_from(["answered", "lost", "forgotten by the leader"]),
        st.sampled_from([11, 12, 13]),
    ),
    max_size=12,
)


def ask(session: FetchSessionHandler, asked: dict[PartitionKey, Wanted]) -> None:
    """Ask for these partitions alone."""
    for key in dict.fromkeys([*session.wanted, *asked]):
        session.want(key, asked.get(key))


def wanted(topic: str, offset: int, version: int) -> Wanted:
    return Wanted(IDS[topic] if version >= 13 else NO_ID, offset, 0, 100, 7, 6)


@given(STEPS)
def test_the_leader_always_serves_what_the_follower_wants(
    steps: list[tuple[dict[PartitionKey, int], str, int]],
) -> None:
    cache = FetchSessionCache(100, chance=random.Random(1))
    session = FetchSessionHandler()
    names = {topic_id: name for name, topic_id in IDS.items()}
    lost = 0
    for offsets, fate, version in steps:
        asked = {key: wanted(key[0], offset, version) for key, offset in offsets.items()}
        ask(session, asked)
        request = session.build(version)
        context = cache.context(version, request, names, 0.0)
        assert context is not None
        if context.error is not ErrorCode.NONE:
            # Only a leader that has forgotten the session refuses it.
            session.forget()
            request = session.build(version)
            context = cache.context(version, request, names, 0.0)
            assert context is not None
            assert context.error is ErrorCode.NONE
        found = {(each.name, each.partition): each.fetch_offset for each in context.partitions}
        assert found == offsets
        assert len(cache) <= 1 + lost, "sessions that are not used any more are ended, as far as they are known"
        if fate == "lost":
            session.begin_again()
            lost += 1
            continue
        session.answered(context.session_id)
        if fate == "forgotten by the leader":
            cache.forget(context.session_id)


def test_later_requests_name_only_what_changed() -> None:
    session = FetchSessionHandler()
    both = {("a", 0): wanted("a", 0, 13), ("b", 1): wanted("b", 5, 13)}
    ask(session, both)
    first = session.build(13)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [topic.topic_id for topic in first.topics] == [IDS["a"], IDS["b"]]
    session.answered(9)
    second = session.build(13)
    assert (second.session_id, second.session_epoch, second.topics) == (9, 1, [])
    session.answered(9)
    ask(session, {("a", 0): wanted("a", 3, 13)})
    third = session.build(13)
    assert (third.session_id, third.session_epoch) == (9, 2)
    assert [(topic.topic, topic.partitions[0].fetch_offset) for topic in third.topics] == [("a", 3)]
    assert [(topic.topic_id, topic.partitions) for topic in third.forgotten_topics_data] == [(IDS["b"], [1])]
    session.begin_again()
    ask(session, both)
    again = session.build(13)
    assert (again.session_id, again.session_epoch, len(again.topics)) == (9, 0, 2)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_was_made_anew_stays_in_the_session(version: int) -> None:
    session, cache = FetchSessionHandler(), FetchSessionCache(10, chance=random.Random(1))
    former, present, other = (uuid.UUID(int=number) for number in (1, 2, 3))
    names = {former: "t", present: "t", other: "u"}
    session.want(("u", 0), Wanted(other, 0, 0, 1000, 0, -1))
    for topic_id in (former, present):
        session.want(("t", 0), Wanted(topic_id, 0, 0, 1000, 0, -1))
        context = cache.context(version, session.build(version), names, 0.0)
        assert context is not None
        session.answered(context.session_id)
        assert sorted(each.name for each in context.partitions) == ["t", "u"]


def test_partitions_are_spread_over_the_connections_of_a_leader_as_by_kafka() -> None:
    # Computed by kafka.server.AbstractFetcherManager.getFetcherId: Utils.abs(31 * topic.hashCode + partition) % n.
    assert [fetcher_number("a", index, 4) for index in range(4)] == [(31 * 97 + index) % 4 for index in range(4)]
    assert {fetcher_number("a topic with a long name", index, 3) for index in range(50)} == {0, 1, 2}
    assert fetcher_number("x", 5, 1) == 0

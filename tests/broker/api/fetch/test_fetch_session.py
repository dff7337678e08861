"""Tests of incremental fetch sessions (KIP-227): epochs, omitted partitions, eviction."""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.fetch.fetch_partition import FetchPartitionState, partition_key
from broker.api.fetch.fetch_session import (
    EVICTION_SECONDS,
    FetchContext,
    FetchSessionCache,
)
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchPartition

IDS = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("a", "b", "c")}
CHANCE = random.Random(1)
IN_STEPS = False
NAMES = {topic_id: name for name, topic_id in IDS.items()}


def fetch(
    session_id: int,
    epoch: int,
    wanted: dict[tuple[str, int], int],
    forget: list[tuple[str, int]] = [],  # noqa: B006
    replica: int = -1,
) -> Any:
    """A FetchRequest's fields: `wanted` maps partitions to offsets."""

    def topic(name: str, **fields: Any) -> SimpleNamespace:
        return SimpleNamespace(topic=name, topic_id=IDS.get(name, uuid.UUID(int=9)), **fields)

    def partition(index: int, offset: int) -> FetchPartition:
        return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)

    return SimpleNamespace(
        session_id=session_id,
        session_epoch=epoch,
        topics=[topic(name, partitions=[partition(index, offset)]) for (name, index), offset in wanted.items()],
        forgotten_topics_data=[topic(name, partitions=[index]) for name, index in forget],
        replica_id=-1,
        replica_state=SimpleNamespace(replica_id=replica),
    )


@pytest.fixture(params=["at once", "in steps"], autouse=True)
def in_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is about both ways to take a request into a session."""
    monkeypatch.setattr("broker.api.fetch.fetch_session.STEP", 2)
    monkeypatch.setattr(sys.modules[__name__], "IN_STEPS", request.param == "in steps")


def context_of(cache: FetchSessionCache, *args: Any) -> FetchContext:
    if IN_STEPS:
        return finish(cache.steps(*args))
    context = cache.context(*args)
    assert context is not None
    return context


def finish(steps: Generator[None, None, FetchContext]) -> FetchContext:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            context: FetchContext = end.value
            return context


def test_a_session_remembers_merges_and_forgets() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    first = context_of(cache, 13, fetch(0, 0, {("a", 0): 5, ("b", 0): 7}), NAMES, 0.0)
    assert first.error is ErrorCode.NONE
    assert first.session_id > 0
    assert not first.incremental
    second = context_of(cache, 13, fetch(first.session_id, 1, {("a", 0): 6, ("c", 2): 1}, [("b", 0)]), NAMES, 1.0)
    assert second.incremental
    assert [(state.name, state.partition, state.fetch_offset) for state in second.partitions] == [
        ("a", 0, 6),
        ("c", 2, 1),
    ]


def test_epochs_are_counted() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    session_id = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    assert context_of(cache, 12, fetch(session_id, 1, {}), {}, 0.0).error is ErrorCode.NONE
    assert context_of(cache, 12, fetch(session_id, 1, {}), {}, 0.0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert context_of(cache, 12, fetch(session_id + 1, 2, {}), {}, 0.0).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert context_of(cache, 13, fetch(session_id, 2, {}), NAMES, 0.0).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert context_of(cache, 12, fetch(session_id, 2, {}), {}, 0.0).error is ErrorCode.NONE


def test_the_final_epoch_closes_the_session() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    session_id = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    closing = context_of(cache, 12, fetch(session_id, -1, {("a", 0): 0}), {}, 0.0)
    assert closing.session_id == 0
    assert len(cache) == 0


def test_a_session_that_forgets_everything_ends() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    session_id = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    context_of(cache, 12, fetch(session_id, 1, {}, [("a", 0)]), {}, 0.0)
    assert len(cache) == 0


def test_only_news_is_told() -> None:
    context = context_of(FetchSessionCache(10, chance=CHANCE), 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0)
    state = context.partitions[0]
    assert state.changed(0, 10, 0, 100)
    assert not state.changed(0, 10, 0, 0)
    assert state.changed(0, 11, 0, 0)
    assert state.changed(0, 11, 3, 0)
    assert state.changed(6, 11, 3, 0)
    assert state.changed(0, 11, 3, 0), "the end of an error is news"
    assert not state.changed(0, 11, 3, 0)


@pytest.mark.parametrize(("offset", "epoch"), [(9, 3), (10, 4), (10, 3)])
def test_a_client_that_did_not_advance_is_told_all_again(offset: int, epoch: int) -> None:
    """A follower that truncates its log, or has a new leader epoch, does not use what it was told."""
    state = FetchPartitionState("a", IDS["a"], 0)
    state.update(FetchPartition(fetch_offset=10, current_leader_epoch=3))
    assert state.changed(0, 10, 4, 0)
    state.update(FetchPartition(fetch_offset=offset, current_leader_epoch=epoch))
    assert state.changed(0, 10, 4, 0)
    assert not state.changed(0, 10, 4, 0)


def test_a_client_that_took_the_records_has_used_the_rest_too() -> None:
    state = FetchPartitionState("a", IDS["a"], 0)
    state.update(FetchPartition(fetch_offset=10, current_leader_epoch=3))
    assert state.changed(0, 10, 4, 100)
    state.update(FetchPartition(fetch_offset=12, current_leader_epoch=3))
    assert not state.changed(0, 10, 4, 0)


def test_partitions_that_gave_records_go_last() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    context = context_of(cache, 12, fetch(0, 0, {("a", 0): 0, ("b", 0): 0, ("c", 0): 0}), {}, 0.0)
    assert context.session is not None
    context.session.served([partition_key(context.partitions[0], False)])
    after = context_of(cache, 12, fetch(context.session_id, 1, {}), {}, 0.0)
    assert [state.name for state in after.partitions] == ["b", "c", "a"]


def test_topic_ids_are_resolved_anew_each_time() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    session_id = context_of(cache, 13, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    assert [state.name for state in context_of(cache, 13, fetch(session_id, 1, {}), NAMES, 0.0).partitions] == ["a"]
    assert [state.name for state in context_of(cache, 13, fetch(session_id, 2, {}), {}, 0.0).partitions] == [""]


@pytest.mark.parametrize("age", [0.0, EVICTION_SECONDS + 1])
def test_a_full_cache_evicts_only_what_is_stale(age: float) -> None:
    cache = FetchSessionCache(1, chance=CHANCE)
    old = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    new = context_of(cache, 12, fetch(0, 0, {("b", 0): 0}), {}, age)
    stale = age > 0
    assert (new.session_id != 0) is stale
    assert (context_of(cache, 12, fetch(old, 1, {}), {}, age).error is ErrorCode.NONE) is not stale


@pytest.mark.parametrize(
    ("before", "after", "age", "gets_one"),
    [
        ((-1, 2), (-1, 3), 1.0, False),
        ((-1, 2), (-1, 3), EVICTION_SECONDS + 1, True),
        ((-1, 2), (-1, 2), EVICTION_SECONDS + 1, False),
        ((-1, 3), (5, 1), 1.0, True),
        ((5, 1), (-1, 3), EVICTION_SECONDS + 1, False),
        ((5, 2), (6, 3), 1.0, False),
        ((5, 2), (6, 3), EVICTION_SECONDS + 1, True),
    ],
)
def test_a_session_in_use_gives_way_to_one_that_is_worth_more(
    before: tuple[int, int], after: tuple[int, int], age: float, gets_one: bool
) -> None:
    """Each is (replica, partitions); -1 is a client. The first was made `age` ago, and was used just now."""
    cache = FetchSessionCache(1, chance=CHANCE)

    def begin(replica: int, size: int, now: float) -> int:
        wanted = {(name, index): 0 for name in ("a", "b") for index in range(2)}
        some = dict(list(wanted.items())[:size])
        return context_of(cache, 12, fetch(0, 0, some, replica=replica), {}, now).session_id

    old = begin(*before, 0.0)
    context_of(cache, 12, fetch(old, 1, {}), {}, age)
    assert (begin(*after, age) != 0) is gets_one


def test_no_slots_no_sessions() -> None:
    assert context_of(FetchSessionCache(0, chance=CHANCE), 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id == 0


def test_sessions_hold_so_many_partitions_between_them_and_stale_ones_make_room() -> None:
    cache = FetchSessionCache(10, max_partitions=4, chance=CHANCE)
    three = {("a", index): 0 for index in range(3)}
    old = context_of(cache, 12, fetch(0, 0, three), {}, 0.0)
    refused = context_of(cache, 12, fetch(0, 0, three), {}, 1.0)
    assert (refused.error, refused.session_id, len(refused.partitions)) == (ErrorCode.NONE, 0, 3)
    assert context_of(cache, 12, fetch(0, 0, {("b", 0): 0}), {}, 1.0).session_id > 0
    late = EVICTION_SECONDS + 2.0
    assert context_of(cache, 12, fetch(0, 0, three), {}, late).session_id > 0
    assert context_of(cache, 12, fetch(old.session_id, 1, {}), {}, late).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_grows_beyond_what_all_may_hold_ends() -> None:
    cache = FetchSessionCache(10, max_partitions=4, chance=CHANCE)
    session_id = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    grown = context_of(cache, 12, fetch(session_id, 1, {("a", index): 0 for index in range(4)}), {}, 0.0)
    assert grown.error is ErrorCode.NONE
    ended = context_of(cache, 12, fetch(session_id, 2, {("b", 0): 0}), {}, 0.0)
    assert ended.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0


def test_no_session_keeps_names_that_no_topic_can_have() -> None:
    cache = FetchSessionCache(10, chance=CHANCE)
    long = "x" * 250
    refused = context_of(cache, 12, fetch(0, 0, {("a", 0): 0, (long, 0): 0}), {}, 0.0)
    assert (refused.error, refused.session_id, len(refused.partitions)) == (ErrorCode.NONE, 0, 2)
    session_id = context_of(cache, 12, fetch(0, 0, {("a", 0): 0}), {}, 0.0).session_id
    ended = context_of(cache, 12, fetch(session_id, 1, {(long, 0): 0}), {}, 0.0)
    assert ended.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0


MANY = {("a", index): index for index in range(9)}
FORGOTTEN = [("a", 1), ("a", 3), ("a", 8)]


def many(monkeypatch: pytest.MonkeyPatch) -> tuple[FetchSessionCache, int, list[Any]]:
    """A cache with a session of many partitions, its id, and what was freed."""
    monkeypatch.setattr("broker.api.fetch.fetch_session.MANY_PARTITIONS", 5)
    freed: list[Any] = []
    cache = FetchSessionCache(10, free=freed.append, chance=CHANCE)
    session_id = finish(cache.steps(13, fetch(0, 0, MANY), NAMES, 0.0)).session_id
    assert not freed
    return cache, session_id, freed


def test_a_session_of_many_partitions_is_not_for_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session_id, _ = many(monkeypatch)
    request = fetch(session_id, 1, {}, FORGOTTEN)
    assert cache.context(13, request, NAMES, 1.0) is None
    # A topic was created meanwhile, so all names are looked up again.
    steps = cache.steps(13, request, {**NAMES, uuid.uuid4(): "new"}, 1.0)
    taken = sum(1 for _ in zip(range(3), steps, strict=False))
    assert taken == 3, "more than two entries were taken at once"
    rest = [state.partition for state in finish(steps).partitions]
    assert rest == [index for (name, index) in MANY if (name, index) not in FORGOTTEN]


def test_nobody_finds_a_session_while_a_request_is_taken_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session_id, freed = many(monkeypatch)
    steps = cache.steps(13, fetch(session_id, 1, {("b", 1): 0, ("b", 2): 0, ("b", 3): 0}), NAMES, 1.0)
    next(steps)
    for epoch in (1, 2, -2):
        other = cache.context(13, fetch(session_id, epoch, {}), NAMES, 1.0)
        assert other is not None
        assert other.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert len(finish(steps).partitions) == len(MANY) + 3
    assert finish(cache.steps(13, fetch(session_id, 2, {}), NAMES, 1.0)).error is ErrorCode.NONE
    assert not freed


def test_a_session_ends_with_a_request_that_is_taken_into_it_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session_id, freed = many(monkeypatch)
    steps = cache.steps(13, fetch(session_id, 1, MANY), NAMES, 1.0)
    next(steps)
    steps.close()
    assert len(cache) == 0
    assert [len(partitions) for partitions in freed] == [len(MANY)] * 2


def test_a_session_that_is_ended_while_a_request_is_taken_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session_id, freed = many(monkeypatch)
    steps = cache.steps(13, fetch(session_id, 1, {("b", 1): 0}), NAMES, 1.0)
    next(steps)
    assert context_of(cache, 13, fetch(session_id, -1, {}), NAMES, 1.0).error is ErrorCode.NONE
    assert len(cache) == 0
    # Its partitions are still written to.
    assert not freed
    assert finish(steps).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert [len(partitions) for partitions in freed] == [len(MANY) + 1] * 2


def test_many_partitions_are_freed_by_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, session_id, freed = many(monkeypatch)
    cache.forget(session_id)
    assert [len(partitions) for partitions in freed] == [len(MANY)] * 2
    without = finish(cache.steps(13, fetch(0, -1, MANY), NAMES, 1.0))
    assert len(without.partitions) == len(MANY)
    steps = cache.steps(13, fetch(0, 0, MANY), NAMES, 1.0)
    for _ in range(4):
        next(steps)
    steps.close()
    assert len(cache) == 0
    assert len(freed) == 6

"""Test that many groups are loaded and examined in turns with requests, and that large groups count for more."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from typing import Any

import pytest

from broker.coordinator import state_log
from broker.coordinator.group import offsets, pace, service
from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.requests import Leaver
from broker.coordinator.group.coordinator_parts import LoadState
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.replay import Replay
from kafkalog.protocol.errors import ErrorCode, InvalidCommitOffsetSizeError, UnknownMemberIdError
from kafkalog.records.batch import encode_batch
from tests.broker.coordinator.group.running import ANYBODY, IN_TRANSACTION, PRODUCER, T0, Running, Start, at


def test_groups_that_are_loaded_begin_their_sessions_in_turns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    for number in range(5):
        first.run(first.member(f"g{number}"))
    first.parts.close()
    monkeypatch.setattr(pace, "UNITS_AT_ONCE", 1)
    second = start()
    armed: set[int] = set()

    async def work() -> None:
        second.groups.start()
        [partition_groups] = second.groups.all_partition_groups()
        while partition_groups.state is LoadState.LOADING:
            armed.add(sum(group.timer is not None for group in partition_groups.groups.values()))
            await asyncio.sleep(0)

    second.run(work())
    assert {1, 2, 3, 4} <= armed
    assert all(group.timer is not None for group in second.groups.all_partition_groups()[0].groups.values())
    second.groups.stop()


def test_what_was_read_of_a_huge_group_is_gathered_by_a_worker(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have hundreds of thousands of offsets, in a transaction that is still open."""
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    first.run(first.groups.commit("g", IN_TRANSACTION, {T0: at(2)}, PRODUCER))
    first.parts.close()
    threads: list[threading.Thread] = []
    finish = Replay.finish

    def told(replay: Replay) -> set[str]:
        threads.append(threading.current_thread())
        return finish(replay)

    monkeypatch.setattr(Replay, "finish", told)
    second = start()
    second.ready()
    assert second.groups.offsets_of("g", require_stable=True)[T0] == (None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert threads
    assert threading.main_thread() not in threads
    second.groups.stop()


def note_turns(running: Running, monkeypatch: pytest.MonkeyPatch, where: type, method: str) -> Counter[int]:
    """Count the calls of a method by the round of the loop."""
    monkeypatch.setattr(pace, "UNITS_AT_ONCE", 4)
    monkeypatch.setattr(pace, "OFFSETS_OF_UNIT", 1)
    called, rounds, original = Counter[int](), itertools.count(1), getattr(where, method)
    present = 0

    def next_round() -> None:
        nonlocal present
        present = next(rounds)
        running.parts.loop.call_soon(next_round)

    def noted(*args: Any) -> Any:
        called[present] += 1
        return original(*args)

    running.parts.loop.call_soon(next_round)
    monkeypatch.setattr(where, method, noted)
    return called


@pytest.mark.parametrize("method", ["load", "resume"])
def test_members_count_when_groups_are_loaded_in_turns(
    start: Start, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    first = start(offsets_topic_num_partitions="1")
    first.ready()
    for number in range(6):
        first.run(first.member(f"g{number}"))
    first.parts.close()
    second = start()
    called = note_turns(second, monkeypatch, ClassicGroup, method)
    second.ready()
    assert list(called.values()) == [2, 2, 2]
    second.groups.stop()


def test_offsets_count_when_they_are_looked_at_in_turns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    for number in range(6):
        running.commit(f"g{number}", 1, running.parts.now)
    called = note_turns(running, monkeypatch, GroupOffsets, "expired")
    assert running.run(running.groups.expire_offsets()) == 0
    assert list(called.values()) == [2, 2, 2]
    running.groups.stop()


def test_offsets_of_a_large_transaction_are_merged_in_turns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    committed = {("t", index): at(index) for index in range(6)}
    running.run(running.groups.commit("g", IN_TRANSACTION, committed, PRODUCER))
    monkeypatch.setattr(offsets, "MERGED_AT_ONCE", 2)
    called = note_turns(running, monkeypatch, GroupOffsets, "_commit")
    [group] = running.groups.groups()

    async def work() -> None:
        await running.mark(0, True)
        assert len(running.groups.offsets_of("g", require_stable=True).partitions()) == 6
        while len(group.offsets.committed) < 6:
            await asyncio.sleep(0)

    running.run(work())
    assert list(called.values()) == [2, 2, 2]
    running.groups.stop()


@pytest.mark.parametrize("producer", [None, PRODUCER], ids=["plain", "transactional"])
def test_the_batch_of_a_large_commit_is_encoded_by_a_worker(
    start: Start, monkeypatch: pytest.MonkeyPatch, producer: tuple[int, int] | None
) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    monkeypatch.setattr(service, "OFFSETS_AT_ONCE", 2)
    threads: list[threading.Thread] = []
    encode = encode_batch

    def told(*args: Any, **options: Any) -> bytearray:
        threads.append(threading.current_thread())
        return encode(*args, **options)

    monkeypatch.setattr(state_log, "encode_batch", told)
    request = ANYBODY if producer is None else IN_TRANSACTION
    committed = {("t", index): at(index) for index in range(3)}
    assert running.run(running.groups.commit("g", request, committed, producer)) == {}
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    if producer is not None:
        running.run(running.mark(0, True))

    def found(running: Running) -> dict[tuple[str, int], int | None]:
        view = running.groups.offsets_of("g", require_stable=True)
        offsets = {each: view[each][0] for each in view.partitions()}
        return {each: None if offset is None else offset.offset for each, offset in offsets.items()}

    assert found(running) == {each: offset.offset for each, offset in committed.items()}
    running.groups.stop()
    running.parts.close()
    again = start()
    again.ready()
    assert found(again) == {each: offset.offset for each, offset in committed.items()}
    again.groups.stop()


@pytest.mark.parametrize("what", ["fenced", "too large"])
def test_a_large_commit_is_checked_when_it_is_appended(
    start: Start, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    running = start(offsets_topic_num_partitions="1")
    running.ready()
    monkeypatch.setattr(service, "OFFSETS_AT_ONCE", 2)
    committed = {("t", index): at(index) for index in range(3)}
    member = running.run(running.member("g"))
    request = CommitRequest(member.member_id, None, member.generation, 8)
    encoded = running.groups.log.encoded

    async def then_leaves(*args: Any) -> bytearray | None:
        batch = await encoded(*args)
        assert batch is not None
        assert await running.classic.leave("g", [Leaver(member.member_id)]) == [ErrorCode.NONE]
        return batch

    if what == "fenced":
        monkeypatch.setattr(running.groups.log, "encoded", then_leaves)
        with pytest.raises(UnknownMemberIdError):
            running.run(running.groups.commit("g", request, committed))
    else:
        partition = running.groups.log.leads(0)
        assert partition is not None
        partition.log.config = running.parts.config.log_config({"max.message.bytes": 100})
        with pytest.raises(InvalidCommitOffsetSizeError):
            running.run(running.groups.commit("g", request, committed))
    assert running.groups.offsets_of("g").partitions() == []
    running.groups.stop()

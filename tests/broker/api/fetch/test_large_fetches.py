"""Test that fetches of many partitions let other requests run, and return the same as small fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api import large
from broker.api.errors import ClientGoneError
from broker.api.fetch import fetch, fetch_in_turns, fetch_session
from kafkalog.protocol.errors import ErrorCode
from tests.broker.api.fetch.support import NEVER_MS, sizes, told, wanted
from tests.broker.coordinator.support import Stored
from tests.broker.serving import HERE, RECORDS, Serving
from tests.support.in_process.asking import Client

NONE = 90
"""Partitions of `t`, of which most are not there."""
AT_ONCE = 10


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """Every fetch is one of many partitions, and ends its turn wherever it may."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    monkeypatch.setattr(fetch, "MANY_BYTES", 0)
    monkeypatch.setattr(fetch_in_turns, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(fetch_session, "STEP", AT_ONCE)
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, fetch.HANDLERS)


def test_others_have_their_turn_while_many_partitions_are_fetched(serving: Serving) -> None:
    async def work() -> None:
        response = await serving.ask(wanted(range(NONE)))
        # They are taken from the request, read, and told.
        assert serving.turns >= 3 * NONE // AT_ONCE
        assert len(told(response)) == NONE

    serving.run(work())


def test_others_have_their_turn_while_a_session_of_many_partitions_goes_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request itself is a small one."""
    monkeypatch.setattr(fetch, "MANY_BYTES", 1 << 20)
    monkeypatch.setattr(fetch_session, "MANY_PARTITIONS", HERE - 1)

    async def work() -> None:
        session_id = (await serving.ask(wanted(range(HERE), epoch=0))).session_id
        for index in range(HERE):
            serving.append(index)
        serving.turns = 0
        response = await serving.ask(wanted([], session_id, epoch=1))
        assert len(sizes(response)) == HERE
        # They are read and told.
        assert serving.turns >= 2 * HERE // AT_ONCE

    serving.run(work())


@pytest.mark.parametrize("version", [3, 12, 13])
def test_many_partitions_are_answered_as_few_are(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Without a session and in one, from which what is not news is left out."""

    async def scenario() -> list[Any]:
        answers = [told(await serving.ask(wanted(range(NONE)), version))]
        if version > 3:
            first = await serving.ask(wanted(range(HERE + 5), epoch=0), version)
            answers.append(told(first))
            for epoch, partitions in ((1, []), (2, [0, 7]), (3, [HERE + 1])):
                request = wanted(partitions, first.session_id, epoch, fetch_offset=1)
                answers.append(told(await serving.ask(request, version)))
            gone = await serving.ask(wanted([], first.session_id, epoch=3), version)
            answers.append(gone.error_code)
        return answers

    async def work() -> None:
        for index in (0, 7, HERE - 1):
            serving.append(index)
        in_turns = await scenario()
        monkeypatch.setattr(fetch, "MANY_BYTES", 1 << 20)
        serving.turns = 0
        assert await scenario() == in_turns
        assert any(records for *_, records in in_turns[0])

    serving.run(work())


def test_records_are_converted_for_old_consumers(serving: Serving) -> None:
    async def work() -> None:
        serving.append(7)
        response = await serving.ask(wanted(range(HERE)), version=3)
        [converted] = [records for *_, records in told(response) if records]
        assert b"a record" in converted
        assert converted != RECORDS

    serving.run(work())


def test_what_is_appended_while_others_have_their_turn_is_noticed(serving: Serving) -> None:
    """To a partition that was read already."""

    async def work() -> None:
        fetching = serving.begin(wanted(range(HERE), wait_ms=NEVER_MS))
        await serving.until(lambda: serving.watched == 1)
        for _ in range(HERE // AT_ONCE - 1):
            await asyncio.sleep(0)
        serving.append(0)
        assert sizes(await fetching) == {0: len(RECORDS)}
        assert serving.watched == 0

    serving.run(work())


def test_a_fetch_waits_until_there_is_as_much_as_it_wants(serving: Serving) -> None:
    async def work() -> None:
        fetching = serving.begin(wanted(range(HERE), wait_ms=NEVER_MS, min_bytes=3 * len(RECORDS)))
        for index in (3, 20):
            for _ in range(100):
                await asyncio.sleep(0)
            serving.append(index)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not fetching.done()
        serving.append(3)
        assert sizes(await fetching) == {3: 2 * len(RECORDS), 20: len(RECORDS)}
        assert serving.watched == 0

    serving.run(work())


def test_a_fetch_that_has_waited_long_enough_is_answered(serving: Serving) -> None:
    async def work() -> None:
        serving.append(5)
        response = await serving.ask(wanted(range(HERE), wait_ms=1, min_bytes=1 << 20))
        assert sizes(response) == {5: len(RECORDS)}
        assert len(told(response)) == HERE
        assert serving.watched == 0

    serving.run(work())


def test_a_fetch_of_what_there_is_not_does_not_wait(serving: Serving) -> None:
    async def work() -> None:
        codes = {code for _, code, *_ in told(await serving.ask(wanted([HERE, 1], wait_ms=NEVER_MS)))}
        assert codes == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert serving.watched == 0

    serving.run(work())


def test_a_partition_that_goes_while_a_fetch_waits_is_told(serving: Serving) -> None:
    async def work() -> None:
        fetching = serving.begin(wanted(range(HERE), wait_ms=NEVER_MS))
        for _ in range(100):
            await asyncio.sleep(0)
        serving.parts.replicas.stop_partition("t", 4)
        codes = [code for _, code, *_ in told(await fetching)]
        assert [index for index, code in enumerate(codes) if code] == [4]

    serving.run(work())


@pytest.mark.parametrize("after", [1, 3, 5, 8, 1000], ids=str)
def test_nothing_is_left_of_a_client_that_leaves(serving: Serving, after: int) -> None:
    """Whenever it does."""

    async def work() -> None:
        client = Client()
        fetching = serving.begin(wanted(range(HERE), epoch=0, wait_ms=NEVER_MS), client=client)
        for _ in range(after):
            await asyncio.sleep(0)
        client.close()
        with pytest.raises(ClientGoneError):
            await fetching
        assert serving.watched == 0

    serving.run(work())


def test_a_session_is_for_one_request_at_a_time(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one that comes while the first is taken into it is refused, and does no harm."""
    monkeypatch.setattr(fetch_session, "STEP", 1)

    async def work() -> None:
        session_id = (await serving.ask(wanted(range(HERE), epoch=0))).session_id
        first = serving.begin(wanted(range(HERE), session_id, epoch=1, fetch_offset=0))
        await asyncio.sleep(0)
        others = [serving.begin(wanted([], session_id, epoch)) for epoch in (1, 2)]
        for response in await asyncio.gather(*others):
            assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert (await first).error_code == ErrorCode.NONE
        assert (await serving.ask(wanted([], session_id, epoch=2))).error_code == ErrorCode.NONE

    serving.run(work())

"""The conclusions that a controller's channel draws from attempts to reach its broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from broker.config.listeners import Endpoint
from broker.controller.cluster.channels import CONNECTED_S, PROBE_S, REFUSED_S, Channel, until_next_look
from broker.controller.cluster.model.requests import ControlRequest
from broker.metadata.model import BrokerRegistration
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError, LinkRefusedError, LinkTimeoutError
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop

BROKER = BrokerRegistration(2, (Endpoint("PLAINTEXT", "host", 9092),))
REQUEST = ControlRequest(2, UpdateMetadataRequest(), 8, frozenset())


class Peer:
    """A link whose attempts to connect end as a test says; each connection breaks at once.

    Attributes:
        outcomes: how the next attempts end; after them nothing comes of any.
        answered: the responses that the channel took.
        deaths: how often the channel took the broker for dead.
    """

    connected = False

    def __init__(self, *outcomes: LinkError | None) -> None:
        self.outcomes = list(outcomes)
        self.answered: list[Any] = []
        self.deaths = 0

    async def connect(self, *, timeout: float) -> None:
        if not self.outcomes:
            await asyncio.sleep(1e9)
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome

    async def request(self, message: object, **options: object) -> object:
        await self.connect(timeout=1)
        return len(self.answered)

    async def close(self) -> None:
        pass

    def channel(self, answered: Callable[..., None] | None = None) -> Channel:
        def dead(broker: BrokerRegistration) -> None:
            self.deaths += 1

        def note(broker: BrokerRegistration, request: ControlRequest, response: object) -> None:
            self.answered.append(response)
            if answered is not None:
                answered(broker, request, response)

        return Channel(BROKER, lambda broker, purpose: cast(Link, self), note, dead, 1.0)


def play(
    peer: Peer, scenario: Callable[[Channel], Awaitable[None]], answered: Callable[..., None] | None = None
) -> None:
    async def main(loop: VirtualLoop) -> None:
        channel = peer.channel(answered)
        await scenario(channel)
        await channel.close()

    virtual_time.run(main)


REFUSED, SLOW = LinkRefusedError("refused"), LinkTimeoutError("slow")


@pytest.mark.parametrize(
    ("outcomes", "deaths"),
    [((REFUSED, REFUSED), 1), ((REFUSED, None, REFUSED), 0), ((REFUSED, SLOW, REFUSED, None), 0)],
)
@pytest.mark.parametrize("is_idle", [True, False])
def test_only_refusals_in_a_row_say_that_a_process_is_dead(
    outcomes: tuple[LinkError | None, ...], deaths: int, is_idle: bool
) -> None:
    peer = Peer(*outcomes)

    async def scenario(channel: Channel) -> None:
        if not is_idle:
            for _ in range(2):
                channel.put(REQUEST)
        await asyncio.sleep(20 * PROBE_S)
        assert not peer.outcomes

    play(peer, scenario)
    assert peer.deaths == deaths


def test_an_answer_that_cannot_be_taken_keeps_no_request_back(caplog: pytest.LogCaptureFixture) -> None:
    peer = Peer(None, None)

    def fail(*answer: object) -> None:
        raise RuntimeError("a test")

    async def scenario(channel: Channel) -> None:
        for _ in range(2):
            channel.put(REQUEST)
        await asyncio.sleep(20 * PROBE_S)
        assert channel.waiting == 0

    play(peer, scenario, fail)
    assert peer.answered == [0, 1]
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


@pytest.mark.parametrize(
    ("is_connected", "refusals", "seconds"), [(True, 0, CONNECTED_S), (False, 0, PROBE_S), (False, 1, REFUSED_S)]
)
def test_a_connection_is_looked_at_less_often_than_one_is_tried(
    is_connected: bool, refusals: int, seconds: float
) -> None:
    peer = Peer()
    peer.connected = is_connected
    assert until_next_look(cast(Link, peer), refusals) == seconds


def test_a_connection_that_ends_is_made_anew_at_once() -> None:
    peer = Peer(None, None)

    async def scenario(channel: Channel) -> None:
        await asyncio.sleep(1.5 * PROBE_S)
        peer.connected = True
        await asyncio.sleep(PROBE_S + CONNECTED_S / 2)
        assert len(peer.outcomes) == 1
        peer.connected = False
        cast(Link, peer).on_lost()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not peer.outcomes

    play(peer, scenario)

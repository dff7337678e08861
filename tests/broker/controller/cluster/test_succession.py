"""Test that a dead controller is replaced, and that one that is alive is left in peace."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from broker.config.listeners import Endpoint
from broker.controller.cluster.succession import Succession
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import brokers, controller, paths
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkBrokenError, LinkError, LinkRefusedError, LinkTimeoutError
from broker.zookeeper.interface import Create, Delete, ensure
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

OTHER = 2


class Unreachable:
    """A link to an address that gives always the same error."""

    connected = False

    def __init__(self, error: LinkError, tried: Callable[[], None]) -> None:
        self._error = error
        self._tried = tried

    async def connect(self, *, timeout: float) -> None:
        self._tried()
        raise self._error

    async def close(self) -> None:
        pass


def register(broker_id: int, *, watches_itself: bool) -> bytes:
    endpoints = (Endpoint("PLAINTEXT", "host", 9092),)
    return brokers.encode(BrokerRegistration(broker_id, endpoints, watches_itself=watches_itself), 0)


def is_deposed(
    error: LinkError,
    *,
    watches_itself: bool = True,
    when_tried: Callable[[SimulatedEnsemble], None] | None = None,
    without_link: Sequence[Exception] = (),
) -> bool:
    """Let a candidate watch a controller whose address gives `error`; return whether `/controller` has gone.

    The first attempts to make a link raise the errors `without_link`.
    """
    failures = list(without_link)
    found = False

    async def main(loop: VirtualLoop) -> None:
        nonlocal found
        ensemble = SimulatedEnsemble(loop, random.Random(1))
        other, own = SimulatedSession(ensemble, 1e9), SimulatedSession(ensemble, 1e9)
        await ensure(own, paths.BROKER_IDS)
        await own.create(paths.CONTROLLER_EPOCH, b"4")
        await other.create(paths.CONTROLLER, controller.encode(OTHER, 0), is_ephemeral=True)
        data = register(OTHER, watches_itself=watches_itself)
        await other.create(paths.broker_id(OTHER), data, is_ephemeral=True)
        link = cast(Link, Unreachable(error, lambda: when_tried(ensemble) if when_tried else None))

        def connect(broker: BrokerRegistration, purpose: str) -> Link:
            if failures:
                raise failures.pop()
            return link

        watch = Succession(1, own, connect, lambda: OTHER, lambda: True, 30.0)
        task = loop.create_task(watch.run())
        await asyncio.sleep(20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        found = not ensemble.exists(paths.CONTROLLER)
        assert found is not ensemble.exists(paths.broker_id(OTHER))

    virtual_time.run(main)
    return found


def test_a_controller_at_whose_address_nothing_listens_is_deposed() -> None:
    assert is_deposed(LinkRefusedError("refused"))


@pytest.mark.parametrize("error", [LinkTimeoutError("slow"), LinkBrokenError("no route")])
def test_one_that_cannot_be_reached_is_not(error: LinkError) -> None:
    assert not is_deposed(error)


def test_one_that_does_not_watch_its_registration_is_not() -> None:
    assert not is_deposed(LinkRefusedError("refused"), watches_itself=False)


def test_one_that_has_registered_anew_is_not() -> None:
    def again(ensemble: SimulatedEnsemble) -> None:
        path = paths.broker_id(OTHER)
        ensemble.carry_out([Delete(path), Create(path, register(OTHER, watches_itself=True))], 0)

    assert not is_deposed(LinkRefusedError("refused"), when_tried=again)


@pytest.mark.parametrize("failure", [LinkError("it has no such listener"), RuntimeError("a test")])
def test_a_failure_does_not_end_the_watch(failure: Exception) -> None:
    assert is_deposed(LinkRefusedError("refused"), without_link=[failure])

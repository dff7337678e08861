"""Helpers of tests of links: a link that leaves nothing behind, and bounded waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from broker.net.links.link import Link, LinkSettings
from broker.security.sasl.broker_login import BrokerLogin
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.sasl import make_mechanism
from tests.kafkalog.protocol.wire.support import ScramServer
from tests.support.scripted import Handler

T = TypeVar("T")
DEADLINE_S = 60.0
SETTINGS = LinkSettings(client_id="test-link", request_timeout=DEADLINE_S, max_response_bytes=64 << 20, backoff=0.001)


@asynccontextmanager
async def linked(address: str, settings: LinkSettings = SETTINGS, **more: Any) -> AsyncIterator[Link]:
    """A link to `host:port` on the running loop, closed at the end; nothing of it is left then."""
    host, _, port = address.rpartition(":")
    workers = ThreadWorkers(1)
    tasks = asyncio.all_tasks()
    link = Link(
        host,
        int(port),
        settings,
        loop=asyncio.get_running_loop(),
        workers=workers,
        chance=random.Random(1),
        **more,
    )
    try:
        yield link
    finally:
        await link.close()
        workers.close(wait=True)
        assert asyncio.all_tasks() == tasks


def run(main: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(2 * DEADLINE_S):
            return await main

    return asyncio.run(bounded())


async def until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await asyncio.sleep(0.005)
    except TimeoutError:
        pytest.fail(f"waited in vain: {what}")


def numbered(count: int = 1) -> Handler:
    """Answers Metadata requests with their numbers."""
    numbers = iter(range(10_000))
    return lambda request: MetadataResponse(brokers=[MetadataResponseBroker(node_id=next(numbers), host="h", port=1)])


def scram_handlers(password: str, lifetime_ms: int = 0) -> dict[type[Request], Handler]:
    server: list[ScramServer] = []

    def authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        message = bytes(request.auth_bytes)
        if message.startswith(b"n,,"):
            server[:] = [ScramServer("SHA256", "alice", password)]
            return SaslAuthenticateResponse(auth_bytes=server[0].begin(message))
        return SaslAuthenticateResponse(auth_bytes=server[0].end(message), session_lifetime_ms=lifetime_ms)

    return {
        SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]),
        SaslAuthenticateRequest: authenticate,
        MetadataRequest: numbered(),
    }


SCRAM = BrokerLogin(lambda host, deadline: make_mechanism("SCRAM-SHA-256", "alice", "secret"), is_slow=False)

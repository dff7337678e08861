"""Test links that log in: mechanisms, failures, and sessions that end."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from broker.net.links.link_errors import LinkAuthenticationError, LinkTimeoutError
from broker.security.sasl.broker_login import BrokerLogin
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.wire.sasl import Mechanism
from tests.broker.net.links.support import SCRAM, SETTINGS, linked, run, scram_handlers, until
from tests.support.scripted import ScriptedBroker


def test_scram_authenticates_each_connection() -> None:
    with ScriptedBroker(scram_handlers("secret")) as server:

        async def main() -> None:
            async with linked(server.address, login=SCRAM) as link:
                await link.request(MetadataRequest(topics=[]))
                server.hang_up()
                await until(lambda: not link.connected, "the end of the connection")
                await link.request(MetadataRequest(topics=[]))
            assert server.seen[SaslHandshakeRequest] == 2

        run(main())


def test_a_password_that_is_wrong() -> None:
    with ScriptedBroker(scram_handlers("another")) as server:

        async def main() -> None:
            async with linked(server.address, login=SCRAM) as link:
                with pytest.raises(LinkAuthenticationError, match="SCRAM") as caught:
                    await link.request(MetadataRequest(topics=[]))
                assert "secret" not in repr(caught.value)

        run(main())


def test_credentials_that_cannot_be_got() -> None:
    released = threading.Event()

    def refuse(host: str, deadline: float) -> Mechanism:
        raise AuthenticationError(f"no token for {host}")

    def wait(host: str, deadline: float) -> Mechanism:
        released.wait()
        return refuse(host, deadline)

    async def main() -> None:
        async with linked("127.0.0.1:1", login=BrokerLogin(refuse, is_slow=True)) as link:
            with pytest.raises(LinkAuthenticationError, match=r"no token for 127\.0\.0\.1"):
                await link.request(MetadataRequest(topics=[]))
        quick = replace(SETTINGS, connect_timeout=0.01)
        async with linked("127.0.0.1:1", quick, login=BrokerLogin(wait, is_slow=True)) as link:
            with pytest.raises(LinkTimeoutError, match="no credentials to log in to"):
                await link.request(MetadataRequest(topics=[]))
            released.set()

    run(main())


def test_a_session_that_ends_is_replaced_between_requests() -> None:
    with ScriptedBroker(scram_handlers("secret", lifetime_ms=1000 * 3600)) as server:

        async def main() -> None:
            async with linked(server.address, login=SCRAM) as link:
                await link.request(MetadataRequest(topics=[]))
                first = link._channel
                assert first is not None
                assert not first.expired
                assert first._session_ends <= asyncio.get_running_loop().time() + 3600 * 0.85
                # An hour passes while a request is in flight: its response is waited for, and the next is sent anew.
                futures = [link.send(MetadataRequest(topics=[]))]
                first._session_ends = 0.0
                futures += [link.send(MetadataRequest(topics=[])) for _ in range(3)]
                assert (link.in_flight, link.waiting) == (1, 3)
                assert [(await each).brokers[0].node_id for each in futures] == [1, 2, 3, 4]
                await first.closed
                assert server.connections == 2

        run(main())

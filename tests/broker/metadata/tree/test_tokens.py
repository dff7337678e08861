"""Test delegation tokens in a simulated ZooKeeper."""

from __future__ import annotations

import pytest

from broker.metadata.operations import SetToken
from broker.metadata.tree.tokens import ROOT
from broker.security.tokens import Token
from kafkalog.protocol.errors import PolicyViolationError
from tests.broker.metadata.tree.support import World, run, until


def token(token_id: str, *renewers: str) -> Token:
    return Token(token_id, "User:ann", "User:ann", renewers, 1000, 9000, 5000)


def test_a_token_that_zookeeper_would_not_take_is_refused_by_name() -> None:
    """ZooKeeper would close the connection, and with it what else the broker has asked for."""

    async def scenario(world: World) -> None:
        store = await world.store(1, with_tokens=True, max_bytes=10_000)
        other = await world.store(2, with_tokens=True)
        large = token("large", *(f"User:{number:099}" for number in range(100)))
        with pytest.raises(PolicyViolationError, match=rf"{ROOT}/large .*jute\.maxbuffer"):
            await store.commit(lambda state: [SetToken("large", large)])
        assert store.state.tokens == {}
        small = token("small", "User:bob")
        await store.commit(lambda state: [SetToken("small", small)])
        await until(lambda: other.state.tokens == {"small": small}, "the other broker knows the other token")

    run(scenario)

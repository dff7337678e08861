"""Test the wait until all brokers know a new delegation token."""

from __future__ import annotations

import pytest

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, DelegationTokenAdmin, Principal
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError
from kafkalog.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.scripted import Answer, ScriptedBroker, Silence, metadata

OWNER = Principal("User", "alice")
TOKEN = DelegationToken("id", b"hmac", OWNER, OWNER, 0, 1 << 50, 1 << 50)


def knows_it_later(broker: ScriptedBroker, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    knows = broker.seen[DescribeDelegationTokenRequest] >= 4
    return DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(token_id="id")] if knows else [])


@pytest.mark.parametrize(("answer", "error"), [(None, ConnectionFailedError), (Silence(), ClientTimeoutError)])
def test_a_broker_that_cannot_be_asked_does_not_keep_the_others_from_it(answer: Answer, error: type[Exception]) -> None:
    with ScriptedBroker({}) as failing, ScriptedBroker({}) as slow:
        failing.handlers[DescribeDelegationTokenRequest] = lambda request: answer
        slow.handlers[DescribeDelegationTokenRequest] = lambda request: knows_it_later(slow, request)
        for broker in (failing, slow):
            broker.handlers[MetadataRequest] = lambda request: metadata({1: slow, 2: failing}, {("t", 0): 1})
        config = ClientConfig.from_dict({"bootstrap.servers": slow.address})
        with DelegationTokenAdmin(config) as admin, pytest.raises(error):
            admin.await_known(TOKEN, 6.0)
        assert slow.seen[DescribeDelegationTokenRequest] == 4


def test_a_broker_that_does_not_know_it_in_time() -> None:
    with ScriptedBroker({DescribeDelegationTokenRequest: lambda request: DescribeDelegationTokenResponse()}) as broker:
        broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("t", 0): 1})
        with DelegationTokenAdmin(ClientConfig.from_dict({"bootstrap.servers": broker.address})) as admin:
            # A busy machine needs time for the first question.
            assert not admin.await_known(TOKEN, 2.0)

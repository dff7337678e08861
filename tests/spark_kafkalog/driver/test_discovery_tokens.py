"""Test that a planner that runs for long logs in by the newest delegation token."""

from __future__ import annotations

import pytest

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, Principal
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from spark_kafkalog.delegation import tokens
from spark_kafkalog.delegation.clusters import TokenCluster
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.executor.tasks import tasks
from spark_kafkalog.offsets import OffsetRange
from spark_kafkalog.options.source_options import SourceOptions
from tests.support.scripted import ScriptedBroker, metadata

OWNER = Principal("User", "alice")


def test_a_new_token_makes_new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    present = ["token-1"]
    users: list[str] = []

    def authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        # The first message of SCRAM: n,,n=<user>,r=<nonce>,tokenauth=true. The rest does not matter here.
        users.append(bytes(request.auth_bytes).decode().split(",")[2].removeprefix("n="))
        return SaslAuthenticateResponse(error_code=58, error_message="refused by the test")

    def token_of(cluster: TokenCluster) -> DelegationToken:
        return DelegationToken(present[0], b"hmac", OWNER, OWNER, 0, 1 << 50, 1 << 50)

    monkeypatch.setattr(tokens, "token_for", token_of)
    broker = ScriptedBroker(
        {
            SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["SCRAM-SHA-512"]),
            SaslAuthenticateRequest: authenticate,
        }
    )
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("t", 0): 1})
    with broker:
        options = SourceOptions.parse(
            {
                "kafka.bootstrap.servers": broker.address,
                "subscribe": "t",
                "spark.kafka.clusters.a.auth.bootstrap.servers": broker.address,
                "spark.kafka.clusters.a.security.protocol": "SASL_PLAINTEXT",
            }
        )
        discovery = Discovery(options)
        for name in ("token-1", "token-2"):
            present[0] = name
            with pytest.raises(Exception, match="refused by the test"):
                discovery.assigned()
        discovery.close()
        assert users == ["token-1", "token-2"]
        # Each task has the token that is the newest when it is planned.
        (task,) = tasks([OffsetRange(TopicPartition("t", 0), 0, 1)], {}, options)
        assert task.token is not None
        assert task.token.token_id == "token-2"
        assert options.with_token(task.token).client.credentials[0] == "token-2"
        assert "hmac" not in repr(task)

"""Tests of connections that log in by OAUTHBEARER, with a token endpoint and a broker that a test scripts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientError
from kafkalog.client.network.connection import Connection
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request
from peers.process import free_port
from tests.kafkalog.client.security.oauth.jwts import RSA_KEY, claims_of
from tests.kafkalog.client.security.oauth.token_server import Reply, TokenServer, token
from tests.support.scripted import Handler, ScriptedBroker, metadata
from tests.support.waiting import wait_until

FIRST = re.compile(rb"n,,\x01auth=Bearer ([^\x01]*)((?:\x01\w+=[^\x01]*)*)\x01\x01")
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Broker(ScriptedBroker):
    """Takes tokens that `accepts`; `tokens` has the claims of all, and `extensions` what came with each."""

    def __init__(self, accepts: Callable[[dict[str, Any]], bool] = lambda claims: True) -> None:
        handlers: dict[type[Request], Handler] = {
            SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]),
            SaslAuthenticateRequest: self._authenticate,
            MetadataRequest: lambda request: metadata({1: self}, {}),
        }
        super().__init__(handlers)
        self.accepts = accepts
        self.tokens: list[dict[str, Any]] = []
        self.extensions: list[bytes] = []
        self.refusal = json.dumps({"status": "invalid_token"})

    def _authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        sent = bytes(request.auth_bytes)
        if sent == b"\x01":
            return SaslAuthenticateResponse(error_code=58, error_message=self.refusal)
        match = FIRST.fullmatch(sent)
        assert match is not None
        claims = claims_of(match[1].decode(), RSA_KEY)
        self.tokens.append(claims)
        self.extensions.append(match[2])
        return SaslAuthenticateResponse(auth_bytes=b"" if self.accepts(claims) else self.refusal.encode())


def config(broker: ScriptedBroker, url: str, **properties: Any) -> ClientConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientConfig.from_dict(
        {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.jaas.config": f'{LOGIN} clientId="me" clientSecret="of-mine" extension_a="1";',
            "sasl.login.retry.backoff.max.ms": "1",
            **named,
        }
    )


def test_a_token_that_ends_during_the_login_is_replaced() -> None:
    """Brokers refuse a token that has ended on its way. That is no wrong configuration: the next token is accepted."""

    def accepts(claims: dict[str, Any]) -> bool:
        if claims["exp"] > time.time() + 60:
            return True
        wait_until(lambda: time.time() >= claims["exp"], "the token has ended")
        return False

    with (
        TokenServer(lambda asked: token(4.0 if len(server.asked) == 1 else 3600.0)) as server,
        Broker(accepts) as broker,
    ):
        with Admin(config(broker, server.url)) as admin:
            admin.describe_cluster()
        assert len(server.asked) == 2


@dataclass
class Provider:
    """Like kafka-python's; as a dataclass that can change it has no hash."""

    asked: int = 0

    def token(self) -> tuple[str, float]:
        self.asked += 1
        return "opaque", time.time() + 3600

    def __call__(self, config: str) -> tuple[str, float]:
        return self.token()


@pytest.mark.parametrize("name", ["sasl_oauth_token_provider", "oauth_cb"])
def test_objects_without_a_hash_give_tokens(name: str) -> None:
    first, second = Provider(), Provider()
    for provider in (first, first, second):
        properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", name: provider}
        make = make_mechanisms(ClientConfig.from_dict(properties))
        assert make is not None
        assert b"auth=Bearer opaque" in make("h", time.monotonic() + 60).first()
    assert (first.asked, second.asked) == (1, 1), "clients with the same object share its token"


def test_all_connections_of_a_process_send_one_token() -> None:
    with TokenServer() as server, Broker() as broker:
        for _ in range(2):
            with Admin(config(broker, server.url)) as admin:
                admin.describe_cluster()
        assert len(server.asked) == 1
        assert broker.connections == len(broker.tokens) >= 2
        assert {claims["sub"] for claims in broker.tokens} == {"alice"}
        assert set(broker.extensions) == {b"\x01a=1"}


def test_a_token_that_the_broker_refuses_is_named_and_replaced() -> None:
    answers = iter([token(sub="bob"), token(sub="alice")])
    with TokenServer(lambda asked: next(answers)) as server, Broker(lambda claims: claims["sub"] == "alice") as broker:
        settings = config(broker, server.url)
        with Cluster(settings) as cluster, pytest.raises(AuthenticationError) as caught:
            cluster.metadata()
        message = str(caught.value)
        assert f"{broker.address} refuses the token of 'bob' from the token endpoint {server.url}" in message
        assert '{"status": "invalid_token"}; check the token\'s issuer, audience and times' in message
        with Cluster(settings) as cluster:
            assert cluster.metadata().brokers
    assert [claims["sub"] for claims in broker.tokens] == ["bob", "alice"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(401, {"error": "invalid_client"}), r"\(invalid_client\); check .*client\.secret"),
        (Reply(400, {"error": "invalid_scope"}), r"check sasl\.oauthbearer\.scope"),
        (token(-10), "has ended; check where it comes from, and this host's clock"),
        (Reply(503), r"HTTP 503; check sasl\.oauthbearer\.token\.endpoint\.url"),
    ],
    ids=["wrong secret", "wrong scope", "a token that has ended", "the endpoint is down"],
)
def test_without_a_token_no_client_tries_for_long(reply: Reply, words: str) -> None:
    with TokenServer(lambda asked: reply) as server, Broker() as broker:
        with Cluster(config(broker, server.url)) as cluster, pytest.raises(AuthenticationError, match=words) as caught:
            cluster.metadata()
        assert "of-mine" not in str(caught.value)
        assert broker.connections == 0


def test_an_endpoint_that_nobody_serves() -> None:
    with Broker() as broker:
        settings = config(broker, f"http://127.0.0.1:{free_port()}/")
        with Cluster(settings) as cluster, pytest.raises(ClientError, match=r"refused.*token\.endpoint\.url"):
            cluster.metadata()


def test_a_token_that_cannot_be_sent() -> None:
    with Broker() as broker:
        settings = config(broker, "http://unused.example/", sasl_oauthbearer_token="two words")
        with pytest.raises(AuthenticationError, match=r"sasl\.oauthbearer\.token cannot be sent"):
            Connection("127.0.0.1", broker.port, settings)

"""Tests of logins at Apache Kafka: signed and unsigned tokens, sessions that are renewed, and delegation tokens."""

from __future__ import annotations

import io
import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from kafkalog.client import Consumer, Producer
from kafkalog.client.admin import Admin, NewTopic, Principal
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.network.authentication import Authentication
from kafkalog.client.network.transport import Transport
from kafkalog.protocol.errors import DelegationTokenNotFoundError, DelegationTokenRequestNotAllowedError
from peers.brokers.secured_kafka import ALICE, BOB, LISTENERS, PASSWORD_MECHANISMS, SCRAM, SecuredKafka, password_of
from tests.kafkalog.client.security.oauth.token_server import Reply, TokenServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
DEADLINE_S = 120.0


def properties(secured: SecuredKafka, listener: str, **more: Any) -> dict[str, Any]:
    """Make properties for a listener; names are written with underscores."""
    return {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": str(secured.certificates.authority),
        "sasl.mechanism": "OAUTHBEARER",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def unsecured(secured: SecuredKafka, listener: str = "SASL_PLAINTEXT", lifetime_s: int = 3600) -> dict[str, Any]:
    jaas = f'{MODULE} unsecuredLoginStringClaim_sub="{ALICE}" unsecuredLoginLifetimeSeconds="{lifetime_s}";'
    return properties(secured, listener, sasl_jaas_config=jaas)


def make_topic(settings: dict[str, Any]) -> str:
    name = f"login-{uuid.uuid4().hex[:12]}"
    with Admin(settings) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


# Tokens


def test_signed_tokens_of_an_endpoint(secured: SecuredKafka) -> None:
    answers = [Reply(200, {"access_token": secured.signing_key.token(ALICE), "expires_in": 3600})]
    with TokenServer(lambda asked: answers[0]) as server:
        settings = properties(
            secured,
            "OAUTH",
            sasl_oauthbearer_token_endpoint_url=server.url,
            sasl_jaas_config=f'{MODULE} clientId="of-{secured.version}" clientSecret="s";',
        )
        make_topic(settings)
        make_topic(settings)
        assert len(server.asked) == 1


def test_signed_tokens_of_a_file(secured: SecuredKafka, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(secured.signing_key.token(ALICE))
    make_topic(properties(secured, "OAUTH", sasl_oauthbearer_token_endpoint_url=file.as_uri()))


def test_unsecured_tokens(secured: SecuredKafka) -> None:
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        make_topic(unsecured(secured, listener))


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "https://another.example"}], ids=["audience", "issuer"])
def test_tokens_that_the_broker_refuses(secured: SecuredKafka, claims: dict[str, Any]) -> None:
    token = secured.signing_key.token(ALICE, **claims)
    settings = ClientConfig.from_dict(properties(secured, "OAUTH", sasl_oauthbearer_token=token))
    with Cluster(settings) as cluster, pytest.raises(AuthenticationError) as caught:
        cluster.metadata()
    assert "refuses the token of 'alice' from sasl.oauthbearer.token (OAUTHBEARER)" in str(caught.value)
    assert "invalid_token" in str(caught.value)
    assert "check the token's issuer, audience" in str(caught.value)
    assert token not in str(caught.value)


# Sessions


class Renewals:
    """Counts the connections that were opened, and the sessions that were renewed, to each address."""

    def __init__(self) -> None:
        self.opened = 0
        self.renewed = 0
        self.enough = threading.Event()

    def renew(self, least: int) -> None:
        self.renewed += 1
        if self.renewed >= least:
            self.enough.set()


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Renewals:
    counted = Renewals()
    opened, renewed = Transport.open, Authentication.renew

    def open_(self: Transport, *args: Any) -> None:
        counted.opened += 1
        opened(self, *args)

    def renew(self: Authentication, *args: Any) -> None:
        renewed(self, *args)
        counted.renew(8)

    monkeypatch.setattr(Transport, "open", open_)
    monkeypatch.setattr(Authentication, "renew", renew)
    return counted


def test_clients_renew_the_sessions_of_tokens_that_end_soon(secured: SecuredKafka, renewals: Renewals) -> None:
    """The broker closes a connection whose session has ended at its next request: none may be lost by that."""
    settings = unsecured(secured, lifetime_s=4)
    topic = make_topic(unsecured(secured))
    received: list[bytes | None] = []
    reads = {"group.id": topic, "auto.offset.reset": "earliest", "auto.commit.interval.ms": "100"}
    with Producer(settings) as producer, Consumer(settings | reads) as consumer:
        consumer.subscribe([topic])
        sent = 0
        while not (renewals.enough.is_set() and len(received) == sent):
            if not renewals.enough.is_set():
                producer.send(topic, b"%d" % sent).result(DEADLINE_S)
                sent += 1
            received += [record.value for record in consumer.poll(0.2)]
    assert received == [b"%d" % number for number in range(sent)]
    assert renewals.opened < renewals.renewed, "sessions are renewed on their connections"


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_sessions_of_passwords_are_renewed(secured: SecuredKafka, mechanism: str, renewals: Renewals) -> None:
    host, _, port = secured.addresses["SASL_SSL"].rpartition(":")
    settings = properties(secured, "SASL_SSL") | {
        "sasl.mechanism": mechanism,
        "sasl.username": ALICE,
        "sasl.password": password_of(ALICE),
    }
    with Cluster(ClientConfig.from_dict(settings)) as cluster:
        assert cluster.metadata([]).brokers
        (slot,) = [each for each in cluster._slots.values() if each.connection is not None]
        connection = slot.connection
        assert connection is not None
        assert connection.address == f"{host}:{port}"
        assert connection._authentication._session_ends < float("inf")
        connection._authentication._reauthenticate_at = 0.0
        assert cluster.metadata([], refresh=True).brokers
        assert slot.connection is connection
    assert (renewals.opened, renewals.renewed) == (1, 1)


# Delegation tokens


def by_password(secured: SecuredKafka, user: str) -> dict[str, Any]:
    return properties(secured, "SASL_SSL") | {
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password_of(user),
    }


@pytest.mark.parametrize("mechanism", SCRAM)
def test_clients_log_in_by_a_delegation_token(secured: SecuredKafka, mechanism: str) -> None:
    me, other = Principal("User", ALICE), Principal("User", BOB)
    with Admin(by_password(secured, ALICE)) as admin:
        token = admin.delegation_tokens.create(renewers=[other], max_lifetime_ms=600_000)
        assert (token.owner, token.requester, token.renewers) == (me, me, (other,))
        assert token.issued_at < token.expires_at <= token.max_timestamp == token.issued_at + 600_000
        assert token.password not in repr(token)
        wait_until(lambda: token in admin.delegation_tokens.describe([me]), "the broker knows the token")
        assert admin.delegation_tokens.describe([Principal("User", "nobody")]) == []
        settings = properties(secured, "SASL_SSL") | {"sasl.mechanism": mechanism, "sasl.jaas.config": token.jaas}
        make_topic(settings)
        with Admin(settings) as by_token, pytest.raises(DelegationTokenRequestNotAllowedError):
            by_token.delegation_tokens.create()
        renewed = admin.delegation_tokens.renew(token.hmac, 300_000)
        assert token.issued_at + 290_000 < renewed < token.max_timestamp
        with Admin(by_password(secured, BOB)) as renewer:
            assert [each.token_id for each in renewer.delegation_tokens.describe()] == [token.token_id]
            renewer.delegation_tokens.expire(token.hmac)
        wait_until(lambda: token.token_id not in ids(admin), "the broker has forgotten the token")
        with pytest.raises(DelegationTokenNotFoundError):
            admin.delegation_tokens.renew(token.hmac)
    with Cluster(ClientConfig.from_dict(settings)) as cluster, pytest.raises(AuthenticationError) as caught:
        cluster.metadata()
    assert f"refuses delegation token '{token.token_id}' ({mechanism})" in str(caught.value)
    assert "not expired" in str(caught.value)


def ids(admin: Admin) -> list[str]:
    return [each.token_id for each in admin.delegation_tokens.describe()]


def test_the_command_for_delegation_tokens(
    secured: SecuredKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "admin.properties"
    settings = by_password(secured, ALICE)
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def call(action: str, *words: str) -> str:
        connect = ("--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(file))
        assert main(["delegation-tokens", action, *connect, *words]) == 0
        return capsys.readouterr().out

    made = json.loads(call("create", "--renewer-principal", f"User:{BOB}", "--json"))
    assert (made["owner"], made["renewers"]) == (f"User:{ALICE}", [f"User:{BOB}"])
    assert made["hmac"] in made["jaas"]
    wait_until(lambda: made["tokenId"] in call("describe"), "the broker knows the token")
    assert made["hmac"] not in call("describe", "--json", "--owner-principal", f"User:{ALICE}")
    for action in ("renew", "expire"):
        monkeypatch.setattr("sys.stdin", io.StringIO(made["hmac"] + "\n"))
        assert "The token expires at 20" in call(action, "--hmac", "-")
    wait_until(lambda: made["tokenId"] not in call("describe"), "the broker has forgotten the token")

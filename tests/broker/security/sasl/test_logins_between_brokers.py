"""Test a cluster whose brokers log in to each other by tokens and by tickets: each by another mechanism."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.producer import Producer
from peers import require
from peers.security.kerberos import REALM, Kdc
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign
from tests.kafkalog.client.security.oauth.token_server import Asked, Reply, TokenServer
from tests.support.member import zookeeper_process
from tests.support.secured.sasl_broker import PREFIX, SaslBroker, accounts
from tests.support.secured.ways import no_gssapi
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300)]

KEY = make_key("RS256")
SERVICE = f"kafka/localhost@{REALM}"
BY_TOKEN, BY_TICKET = 1, 2
LIFETIME_S = 4
"""The time that a token lasts, so short that a broker needs several."""
OAUTH, GSSAPI = f"{PREFIX}.oauthbearer", f"{PREFIX}.gssapi"


def token(asked: Asked) -> Reply:
    """Answer a request for a token as an authorization server does."""
    now = time.time()
    text = sign(KEY, "RS256", {"sub": "broker-by-token", "iat": now - 60, "exp": now + LIFETIME_S})
    return Reply(200, {"access_token": text, "token_type": "Bearer", "expires_in": LIFETIME_S})


def settings(directory: Path, zookeeper: str, keytab: Path, endpoint: str) -> dict[str, str]:
    """Return the settings that all brokers have."""
    jwks = directory / "keys.json"
    jwks.write_text(key_set(KEY))
    security = "org.apache.kafka.common.security"
    return {
        "zookeeper.connect": zookeeper,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://localhost:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        f"{PREFIX}.sasl.enabled.mechanisms": "GSSAPI,OAUTHBEARER,PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": accounts(),
        f"{GSSAPI}.sasl.jaas.config": (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{SERVICE}";'
        ),
        "sasl.kerberos.service.name": "kafka",
        f"{OAUTH}.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        f"{OAUTH}.sasl.jaas.config": (
            f'{security}.oauthbearer.OAuthBearerLoginModule required clientId="broker" clientSecret="b-secret";'
        ),
        f"{OAUTH}.sasl.login.callback.handler.class": f"{security}.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{OAUTH}.sasl.oauthbearer.token.endpoint.url": endpoint,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        # Only the brokers by their logins may do what brokers do.
        "super.users": "User:broker-by-token;User:kafka;User:admin",
        "offsets.topic.replication.factor": "1",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }


def test_records_reach_followers_whatever_their_logins(kdc: Kdc, tmp_path: Path) -> None:
    require(no_gssapi())
    with ExitStack() as stack:
        zookeeper = stack.enter_context(zookeeper_process(tmp_path / "zookeeper"))
        server = stack.enter_context(TokenServer(token))
        common = settings(tmp_path, zookeeper, kdc.keytab("brokers", SERVICE), server.url)
        brokers = {}
        for number, mechanism in ((BY_TOKEN, "OAUTHBEARER"), (BY_TICKET, "GSSAPI")):
            own = {"broker.id": str(number), "sasl.mechanism.inter.broker.protocol": mechanism}
            brokers[number] = stack.enter_context(SaslBroker(tmp_path / str(number), {**common, **own}))
        config = brokers[BY_TOKEN].properties("PLAIN", "admin")
        with Admin(config) as admin, Producer({**config, "acks": "all"}) as producer:
            wait_until(lambda: len(admin.describe_cluster().brokers) == len(brokers), "the brokers know each other")
            # Each broker follows the other one.
            admin.create_topics([NewTopic("words", assignments={0: [BY_TOKEN, BY_TICKET], 1: [BY_TICKET, BY_TOKEN]})])
            ends, sent = time.monotonic() + 1.5 * LIFETIME_S, 0
            while time.monotonic() < ends or sent < 50:
                for partition in (0, 1):
                    producer.send("words", b"%d" % sent, partition=partition).result(60)
                sent += 1
            wait_until(lambda: len(server.asked) >= 2, "the broker gets another token")
        assert server.asked[0].form["grant_type"] == "client_credentials"
        for broker in brokers.values():
            said = broker.logged()
            assert "Traceback" not in said
            assert "is Denied" not in said

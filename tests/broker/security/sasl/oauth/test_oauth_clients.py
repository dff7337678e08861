"""Test clients that log in by tokens: signed ones, and ones without a signature where these are asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.gates import Gates
from broker.security.sasl.oauth.offer import SECURED, UNSECURED
from kafkalog.client.admin import Admin
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from peers.process import PeerFailedError
from peers.security.tokens import unsecured_token
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign
from tests.support.secured.sasl_broker import PREFIX, SaslBroker
from tests.support.secured.uses import produce

pytestmark = [pytest.mark.timeout(300)]

KEY = make_key("RS256")
ISSUER = "https://issuer.example"
SETTINGS = {
    f"{PREFIX}.sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": "kafka",
}


def token(lifetime_s: float = 600, key: Any = KEY, **claims: Any) -> str:
    now = time.time()
    given = {"iss": ISSUER, "aud": "kafka", "sub": "alice", "iat": now - 60, "exp": now + lifetime_s, **claims}
    return sign(key, "RS256", given)


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    base = tmp_path_factory.mktemp("oauth")
    (base / "keys.json").write_text(key_set(KEY))
    settings = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": (base / "keys.json").as_uri()}
    with SaslBroker(base, settings) as running:
        yield running


def properties(broker: SaslBroker, value: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.sasl_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token": value,
    }


def test_our_own_client(broker: SaslBroker) -> None:
    assert produce(properties(broker, token()), "ours") == 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (token(iss="https://elsewhere"), "the token's issuer is 'https://elsewhere'"),
        (token(aud="other"), "the token is for the audience 'other'"),
        (token(key=make_key("RS256")), "the token's signature is not that of its key"),
        (unsecured_token("alice"), "no key is for the algorithm 'none'"),
        ("opaque", "the token is no JWT"),
    ],
    ids=["issuer", "audience", "signature", "unsecured", "opaque"],
)
def test_tokens_that_are_refused(broker: SaslBroker, value: str, reason: str) -> None:
    with pytest.raises(AuthenticationError, match="invalid_token"):
        Admin(properties(broker, value)).list_topics()
    broker.wait_logged(f"OAUTHBEARER: {reason}")


def test_librdkafka(broker: SaslBroker) -> None:
    def client(value: str) -> AdminClient:
        config: dict[str, Any] = {name: each for name, each in properties(broker, "").items() if each}
        config["oauth_cb"] = lambda _: (value, time.time() + 600)
        config["log_level"] = 0
        return AdminClient(config)

    good = client(token())
    good.poll(1)
    assert good.list_topics(timeout=60).brokers
    wrong = client(token(iss="x"))
    wrong.poll(1)
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=1)


def test_a_session_ends_with_its_token(broker: SaslBroker) -> None:
    made: list[str] = []

    def login(_: object) -> tuple[str, float]:
        made.append(token(3))
        return made[-1], time.time() + 3

    config = properties(broker, "") | {"oauth_cb": login}
    del config["sasl.oauthbearer.token"]
    with Producer(config) as producer:
        end = time.monotonic() + 5
        while time.monotonic() < end or len(made) < 2:
            producer.send("sessions", b"x").result(60)
    assert len(made) >= 2


# -- tokens without a signature


def test_tokens_without_a_signature_where_they_are_asked_for(processes: None, tmp_path: Path) -> None:
    settings = {
        f"{PREFIX}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        f"{PREFIX}.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredValidatorRequiredScope="write";'
        ),
    }
    with SaslBroker(tmp_path, settings) as broker:
        jaas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        config = properties(broker, "x")
        del config["sasl.oauthbearer.token"]
        good = f'{jaas} unsecuredLoginStringClaim_sub="ann" unsecuredLoginStringClaim_scope="read write";'
        assert produce(config | {"sasl.jaas.config": good}, "t") == 0
        lacking = f'{jaas} unsecuredLoginStringClaim_sub="ann";'
        with pytest.raises(AuthenticationError, match="insufficient_scope"):
            Admin(config | {"sasl.jaas.config": lacking}).list_topics()
        with pytest.raises(AuthenticationError, match="invalid_token"):
            Admin(properties(broker, token())).list_topics()


def refusal(**texts: str) -> str:
    names = {name.replace("__", "."): value for name, value in texts.items()}
    with pytest.raises(ConfigError) as caught:
        Gates(BrokerConfig({"sasl.enabled.mechanisms": "OAUTHBEARER", **names}))
    return str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.0.0.1", "[::]"])
def test_such_tokens_are_for_this_machine_only(host: str) -> None:
    said = refusal(
        listeners=f"SASL_PLAINTEXT://{host}:0",
        sasl__server__callback__handler__class=UNSECURED,
        advertised__listeners="SASL_PLAINTEXT://h:1",
    )
    assert "which anybody can make" in said


@pytest.mark.parametrize("handler", [*SECURED, None])
def test_keys_are_needed(handler: str | None) -> None:
    given = {} if handler is None else {"sasl__server__callback__handler__class": handler}
    said = refusal(listeners="SASL_PLAINTEXT://127.0.0.1:0", **given)
    assert f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url" in said


@pytest.mark.parametrize("handler", [SECURED[0], UNSECURED])
def test_packages_that_are_missing(handler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    said = refusal(listeners="SASL_PLAINTEXT://127.0.0.1:0", sasl__server__callback__handler__class=handler)
    assert "PyJWT" in said
    assert "pip install 'kafkalog[oauth]'" in said


def test_a_class_of_somebody_else_is_refused() -> None:
    said = refusal(listeners="SASL_PLAINTEXT://127.0.0.1:0", sasl__server__callback__handler__class="com.example.Mine")
    assert "cannot run here" in said


def test_keys_that_cannot_be_fetched_end_the_start(processes: None, tmp_path: Path) -> None:
    settings = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "none.json").as_uri()}
    broker = SaslBroker(tmp_path, settings)
    with pytest.raises(PeerFailedError, match=r"none\.json cannot be used: No such file"):
        broker.start()

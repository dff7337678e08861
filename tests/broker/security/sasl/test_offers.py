"""Test what listeners offer by their configuration, and what is refused at start, with its remedy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster_links import login_of
from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.gates import Gates
from broker.security.sasl.authenticator import Offer
from broker.security.sasl.broker_login import NoCredentialsError
from broker.security.sasl.jaas import MODULES, Login
from broker.security.sasl.mechanisms.interface import SaslError
from broker.security.sasl.mechanisms.plain import PlainServer
from broker.security.sasl.mechanisms.scram import UnknownUsers
from broker.security.sasl.offers import Sources, make_offer
from broker.system.workers import ThreadWorkers
from kafkalog.client.security.jaas import parse_entry
from kafkalog.protocol.wire.sasl import Mechanism

MODULE = "org.apache.kafka.common.security"
PLAIN = (
    f'{MODULE}.plain.PlainLoginModule required username="broker" password="p" user_broker="p" user_alice="a-secret";'
)
PREFIX = "listener.name.sasl_plaintext"
SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
WITH_PLAIN = {**SASL, "sasl.enabled.mechanisms": "PLAIN", f"{PREFIX}.plain.sasl.jaas.config": PLAIN}


def offer_of(texts: dict[str, str], listener: str = "SASL_PLAINTEXT") -> Offer:
    config = BrokerConfig(texts)
    endpoint = next(each for each in config.listeners if each.name == listener)
    sources = Sources(
        lambda mechanism: lambda user: None, lambda mechanism: lambda token: None, UnknownUsers(b""), lambda keys: None
    )
    return make_offer(endpoint, config.of_listener(listener), sources)


def refusal(texts: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        offer_of(texts)
    assert "a-secret" not in str(caught.value)
    return str(caught.value)


def test_mechanisms_are_offered_in_their_order() -> None:
    offer = offer_of({**WITH_PLAIN, "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,SCRAM-SHA-256,PLAIN"})
    assert list(offer.mechanisms) == ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"]
    assert set(offer.max_reauth_ms.values()) == {0}


def test_accounts_of_plain() -> None:
    server = offer_of(WITH_PLAIN).mechanisms["PLAIN"]()
    assert isinstance(server, PlainServer)
    server.answer(b"\0alice\0a-secret")
    assert server.identity is not None
    assert "a-secret" not in repr(offer_of(WITH_PLAIN))


def test_each_listener_and_mechanism_has_its_own() -> None:
    texts = {
        **WITH_PLAIN,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "OUT:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.out.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "connections.max.reauth.ms": "1000",
        f"{PREFIX}.plain.connections.max.reauth.ms": "2000",
    }
    assert offer_of(texts).max_reauth_ms == {"PLAIN": 2000}
    assert offer_of(texts, "OUT").max_reauth_ms == {"SCRAM-SHA-256": 1000}
    assert set(Gates(BrokerConfig(texts))._offers) == {"SASL_PLAINTEXT", "OUT"}


def test_a_listener_without_sasl_has_no_gate() -> None:
    assert Gates(BrokerConfig({"sasl.enabled.mechanisms": "nonsense"}))._offers == {}


def test_kafkas_default_is_refused_with_the_remedy() -> None:
    said = refusal(SASL)
    assert f"{PREFIX}.gssapi.sasl.jaas.config: GSSAPI needs the broker's keytab" in said
    assert "sasl.enabled.mechanisms=SCRAM-SHA-512" in said


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"sasl.enabled.mechanisms": ""}, ["sasl.enabled.mechanisms", "needs a mechanism"]),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, ["DIGEST-MD5", "PLAIN, SCRAM-SHA-256"]),
        ({f"{PREFIX}.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required;"}, ["nobody has an account"]),
        ({f"{PREFIX}.plain.sasl.jaas.config": PLAIN[:-1]}, [f"{PREFIX}.plain.sasl.jaas.config", "semicolon"]),
        ({f"{PREFIX}.plain.sasl.jaas.config": PLAIN.replace("plain.Plain", "scram.Scram")}, ["login module of PLAIN"]),
        ({f"{PREFIX}.plain.sasl.jaas.config": PLAIN.replace(PLAIN.split()[0], "a.B")}, ["login module of PLAIN"]),
    ],
)  # fmt: skip
def test_what_is_refused_at_start(texts: dict[str, str], words: list[str]) -> None:
    said = refusal({**WITH_PLAIN, **texts})
    assert all(word in said for word in words), said


def test_a_login_module_for_no_mechanism_counts_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert "nobody has an account" in refusal({**SASL, "sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN})
    with caplog.at_level(logging.WARNING):
        offer_of({**WITH_PLAIN, f"{PREFIX}.sasl.jaas.config": PLAIN})
    assert f"set {PREFIX}.plain.sasl.jaas.config instead" in caplog.text
    assert "a-secret" not in caplog.text


def test_passwords_are_not_shown_in_errors_of_the_configuration() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({**WITH_PLAIN, "principal.builder.class": "com.example.Builder"})
    assert "cannot run here" in str(caught.value)


def test_a_delay_is_shorter_than_the_time_without_traffic() -> None:
    texts = {"connection.failed.authentication.delay.ms": "500", "connections.max.idle.ms": "500"}
    with pytest.raises(ConfigError, match=r"delay\.ms=500 must be less than connections\.max\.idle\.ms=500"):
        BrokerConfig(texts)
    BrokerConfig({**texts, "connections.max.idle.ms": "-1"})


# -- a JAAS file

SECTIONS = f"""
KafkaServer {{
    {MODULE}.plain.PlainLoginModule required username="broker" password="p" user_alice="of-all";
    com.sun.security.auth.module.Krb5LoginModule required keyTab="/none";
}};
sasl_plaintext.KafkaServer {{ {PLAIN} }};
"""


def with_file(directory: Path, text: str, **more: str) -> dict[str, str]:
    file = directory / "jaas.conf"
    file.write_text(text)
    return {**SASL, "sasl.enabled.mechanisms": "PLAIN", "java.security.auth.login.config": str(file), **more}


def test_a_jaas_file_has_the_accounts(tmp_path: Path) -> None:
    def accepts(texts: dict[str, str], password: str, listener: str = "SASL_PLAINTEXT") -> bool:
        server = offer_of(texts, listener).mechanisms["PLAIN"]()
        with contextlib.suppress(SaslError):
            server.answer(f"\0alice\0{password}".encode())
        return server.identity is not None

    texts = with_file(tmp_path, SECTIONS)
    assert accepts(texts, "a-secret")
    other = {"listeners": "OUT://127.0.0.1:0", "listener.security.protocol.map": "OUT:SASL_PLAINTEXT"}
    assert accepts({**texts, **other, "inter.broker.listener.name": "OUT"}, "of-all", "OUT")
    own = PLAIN.replace("a-secret", "own")
    assert accepts({**texts, f"{PREFIX}.plain.sasl.jaas.config": own}, "own"), "the listener's own key counts first"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Client { };", "has no section sasl_plaintext.KafkaServer or KafkaServer"),
        ("KafkaServer {", "the end of a section"),
        ("KafkaServer { };", "nobody has an account"),
        (SECTIONS.replace("a-secret", "${{secret}}"), "which Java replaces by a property of its own"),
        ("x" * ((1 << 20) + 1), "is no JAAS file"),
    ],
)
def test_a_jaas_file_that_is_refused(tmp_path: Path, text: str, words: str) -> None:
    said = refusal(with_file(tmp_path, text))
    assert words in said
    assert "java.security.auth.login.config" in said


def test_a_jaas_file_that_cannot_be_read(tmp_path: Path) -> None:
    texts = with_file(tmp_path, "")
    (tmp_path / "jaas.conf").write_bytes(b"\xff")
    assert "cannot be read: it is no text in UTF-8" in refusal(texts)
    (tmp_path / "jaas.conf").unlink()
    assert "jaas.conf cannot be read: No such file" in refusal(texts)


# -- between brokers

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
HANDLER = "sasl.login.callback.handler.class"
HANDLER_CLASS = "OAuthBearerLoginCallbackHandler"
BETWEEN = "sasl.mechanism.inter.broker.protocol"
WITH_OAUTH = {"sasl.enabled.mechanisms": "OAUTHBEARER", BETWEEN: "OAUTHBEARER"}
WITH_GSSAPI = {
    "sasl.enabled.mechanisms": "GSSAPI",
    BETWEEN: "GSSAPI",
    f"{PREFIX}.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;",
}
MEMBER = {
    **WITH_PLAIN,
    "zookeeper.connect": "127.0.0.1:2181",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}


def mechanism_of(texts: dict[str, str]) -> Mechanism:
    login = login_of(BrokerConfig(texts))
    assert login is not None
    workers = ThreadWorkers(1)
    try:
        return asyncio.run(login.mechanism("127.0.0.1", 60, workers))
    finally:
        workers.close(wait=True)


def test_brokers_log_in_to_each_other() -> None:
    assert mechanism_of(MEMBER).first() == b"\0broker\0p"
    scram = f'{MODULE}.scram.ScramLoginModule required username="broker" password="p";'
    texts = {
        **MEMBER,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{PREFIX}.scram-sha-512.sasl.jaas.config": scram,
    }
    assert mechanism_of(texts).name == "SCRAM-SHA-512"
    plain = {**MEMBER, "listeners": "PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "PLAINTEXT"}
    assert login_of(BrokerConfig(plain)) is None


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_login_module_is_written_as_it_is_read(options: dict[str, str]) -> None:
    text = Login("", MODULES["PLAIN"], options).text
    assert parse_entry(text, "", "") == (MODULES["PLAIN"], "required", options)


def test_a_jaas_file_has_the_login_to_others(tmp_path: Path) -> None:
    text = SECTIONS.replace("sasl_plaintext.", "other.")
    between = {name: value for name, value in MEMBER.items() if not name.endswith(".jaas.config")}
    assert mechanism_of({**between, **with_file(tmp_path, text)}).first() == b"\0broker\0p"
    oauth = f'{MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a \\"b\\\\";'
    texts = {**between, **with_file(tmp_path, f"KafkaServer {{ {oauth} }};"), **WITH_OAUTH}
    (claims,) = re.findall(rb"Bearer [^.]+\.([^.]+)", mechanism_of(texts).first())
    assert json.loads(urlsafe_b64decode(claims + b"=="))["sub"] == 'a "b\\'


def test_tokens_are_fetched_for_the_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("opaque")
    texts = {**MEMBER, **WITH_OAUTH, HANDLER: f"{MODULE}.oauthbearer.{HANDLER_CLASS}"}
    with pytest.raises(NoCredentialsError, match="No such file"):
        mechanism_of({**texts, ENDPOINT: (tmp_path / "none").as_uri()})
    assert mechanism_of({**texts, ENDPOINT: file.as_uri()}).first() == b"n,,\x01auth=Bearer opaque\x01\x01"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "MD5"}, ["PLAIN, SCRAM-SHA-256", "protocol=SCRAM-SHA-512"]),
        ({**WITH_OAUTH, ENDPOINT: "https://issuer/"}, ["client.id", f"{PREFIX}.oauthbearer."]),
        ({**WITH_OAUTH, ENDPOINT: "ftp://issuer/"}, [ENDPOINT, f"{PREFIX}.oauthbearer."]),
        ({**WITH_OAUTH, HANDLER: "com.example.Mine"}, [HANDLER, "cannot run here", "OAuthBearerLoginCallbackHandler"]),
        (WITH_OAUTH, ["needs a source of tokens"]),
        (WITH_GSSAPI, ["useKeyTab", f"{PREFIX}.gssapi."]),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, ["does not offer it", "sasl.enabled.mechanisms"]),
        ({f"{PREFIX}.plain.sasl.jaas.config": PLAIN.replace('username="broker" ', "")}, ["username and password"]),
    ],
)  # fmt: skip
def test_a_login_between_brokers_that_cannot_be(texts: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        login_of(BrokerConfig({**MEMBER, **texts}))
    assert all(word in str(caught.value) for word in words), caught.value

"""Test the TLS of a listener: what its keys make, and what is refused at the start with the key and the remedy."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.security.tls.contexts import Contexts, make_contexts
from tests.broker.security.tls.support import shake_hands
from tests.support.secured.authority import LOCAL, Authority, authority, client_context, server_file

STORES = Path(__file__).parents[3] / "golden" / "stores"
STORE_PASSWORD, KEY_PASSWORD, PEM_PASSWORD = "of-the-store", "of-the-entry", "of-the-key"


def contexts(texts: dict[str, str], *, protocol: str = "SSL", between_brokers: bool = False) -> Contexts:
    config = BrokerConfig({"listeners": "SSL://:9093", **{f"ssl.{key}": text for key, text in texts.items()}})
    return make_contexts("SSL", config.of_listener("SSL"), protocol, between_brokers=between_brokers)


def trusting(path: Path | None = None) -> dict[str, str]:
    return {"truststore.location": str(path or authority().certificate)}


@pytest.mark.parametrize(
    "keys",
    [
        {"location": "client.pem", "type": "PEM"},
        {"location": "client.pem"},
        {"location": "key.jks", "password": STORE_PASSWORD},
        {"location": "key.p12", "password": STORE_PASSWORD, "type": "PKCS12"},
        {"location": "key_legacy.p12", "password": STORE_PASSWORD},
    ],
    ids=str,
)
def test_stores_of_each_kind(keys: dict[str, str]) -> None:
    texts = {f"keystore.{key}": str(STORES / text) if key == "location" else text for key, text in keys.items()}
    texts["key.password"] = {"jks": KEY_PASSWORD, "pem": PEM_PASSWORD, "p12": STORE_PASSWORD}[keys["location"][-3:]]
    made = contexts(texts)
    assert made.certificate.subject == "CN=client"
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    mine, _ = shake_hands(made.server, client)
    assert mine.version() == "TLSv1.3"


def test_a_certificate_in_the_configuration_itself() -> None:
    text = server_file().read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    made = contexts(
        {
            "keystore.key": text[:at].replace("\n", "\\n"),
            "keystore.certificate.chain": text[at:],
            "keystore.type": "PEM",
            "truststore.certificates": authority().certificate.read_text(),
            "truststore.type": "PEM",
            "client.auth": "required",
        }
    )
    mine, other = shake_hands(made.server, client_context(authority().sign("CN")))
    assert other.getpeercert(binary_form=True)
    assert mine.getpeercert()


@pytest.mark.parametrize(
    ("auth", "protocol", "mode"),
    [
        ("none", "SSL", ssl.CERT_NONE),
        ("requested", "SSL", ssl.CERT_OPTIONAL),
        ("required", "SSL", ssl.CERT_REQUIRED),
        ("required", "SASL_SSL", ssl.CERT_NONE),
    ],
)
def test_whom_a_listener_asks_for_a_certificate(auth: str, protocol: str, mode: ssl.VerifyMode) -> None:
    made = contexts({"keystore.location": str(server_file()), **trusting(), "client.auth": auth}, protocol=protocol)
    assert made.server.verify_mode is mode
    assert made.server.options & ssl.OP_NO_RENEGOTIATION
    assert made.server.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_listener_over_sasl_has_a_value_of_its_own() -> None:
    config = BrokerConfig({"listeners": "SSL://:9093", "listener.name.ssl.ssl.client.auth": "required"})
    config.explicit |= {"ssl.keystore.location": str(server_file())}
    made = make_contexts("SSL", config.of_listener("SSL"), "SASL_SSL", between_brokers=False)
    assert made.server.verify_mode is ssl.CERT_REQUIRED


def test_versions_and_ciphers() -> None:
    own = {"keystore.location": str(server_file())}
    made = contexts({**own, "enabled.protocols": "TLSv1.3,TLSv1.2", "protocol": "TLSv1.2"})
    assert made.server.maximum_version is ssl.TLSVersion.TLSv1_2
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    made = contexts({**own, "enabled.protocols": "TLSv1.2", "cipher.suites": suite})
    mine, _ = shake_hands(made.server, client_context())
    assert (mine.cipher() or ("",))[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_brokers_trust_each_other() -> None:
    own = {"keystore.location": str(server_file()), **trusting(), "client.auth": "required"}
    made = contexts(own, between_brokers=True)
    assert made.client is not None
    assert made.client.check_hostname
    mine, other = shake_hands(made.server, made.client)
    assert mine.version() == "TLSv1.3"
    assert other.getpeercert()
    made = contexts({**own, "endpoint.identification.algorithm": ""}, between_brokers=True)
    assert made.client is not None
    assert not made.client.check_hostname
    with pytest.raises(ConfigError, match=r"would not trust each other: .*ssl\.truststore\.location"):
        contexts({**own, **trusting(Authority("other").certificate)}, between_brokers=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "there is no certificate; set listener.name.ssl.ssl.keystore.location, or ssl.keystore.location for all"),
        ({"keystore.location": "/no/such"}, "ssl.keystore.location=/no/such: cannot be read: No such file"),
        ({"keystore.location": "{key.jks}"}, "ssl.keystore.password is missing"),
        ({"keystore.location": "{key.p12}", "keystore.password": "guessed"}, "ssl.keystore.password: that of .* wrong"),
        ({"keystore.location": "{client.pem}"}, "ssl.key.password: the key of .* is encrypted, and it is missing"),
        ({"keystore.location": "{client.pem}", "key.password": "guessed"}, "ssl.key.password: .* it is wrong"),
        ({"keystore.location": "{client.pem}", "keystore.type": "PKCS12"}, "is PEM; set ssl.keystore.type=PEM"),
        ({"keystore.location": "{authority.pem}"}, "has no line -----BEGIN PRIVATE KEY"),
        ({"keystore.key": "x"}, "ssl.keystore.key is set, and ssl.keystore.certificate.chain is not"),
        ({"keystore.location": "{key.jks}", "keystore.key": "x", "keystore.certificate.chain": "y"}, "contradict"),
        ({"protocol": "TLSv1.2", "enabled.protocols": "TLSv1.3", "keystore.location": "{own}"}, "raise ssl.protocol"),
        ({"cipher.suites": "TLS_RSA_WITH_NONSENSE", "keystore.location": "{own}"}, "OpenSSL has none of them"),
        ({"principal.mapping.rules": "RULE:a", "keystore.location": "{own}"}, "ssl.principal.mapping.rules: RULE:a"),
        (
            {"keystore.location": "{own}", "truststore.location": "/no/such", "client.auth": "required"},
            "ssl.truststore.location=/no/such: cannot be read",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_the_key_and_the_remedy(texts: dict[str, str], message: str) -> None:
    own = texts | {
        key: str(server_file()) if text == "{own}" else str(STORES / text[1:-1])
        for key, text in texts.items()
        if text.startswith("{")
    }
    with pytest.raises(ConfigError, match=message) as refused:
        contexts(own)
    assert str(refused.value).startswith("Listener SSL: ")
    assert "guessed" not in str(refused.value)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    one, other = (authority().sign("x", LOCAL).read_text() for _ in range(2))
    at = one.index("-----BEGIN CERTIFICATE")
    (tmp_path / "mixed.pem").write_text(one[:at] + other[at:])
    with pytest.raises(ConfigError, match="key values mismatch"):
        contexts({"keystore.location": str(tmp_path / "mixed.pem")})


def test_messages_have_the_names_that_are_set() -> None:
    config = BrokerConfig({"listeners": "SSL://:9093", "listener.name.ssl.ssl.keystore.location": "/no/such"})
    with pytest.raises(ConfigError, match=r"Listener SSL: listener\.name\.ssl\.ssl\.keystore\.location=/no/such"):
        make_contexts("SSL", config.of_listener("SSL"), "SSL", between_brokers=False)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2"),
        ("ssl.enabled.protocols", ""),
        ("ssl.protocol", "SSLv3"),
        ("ssl.client.auth", "maybe"),
        ("listener.name.ssl.ssl.keystore.type", "BKS"),
        ("ssl.endpoint.identification.algorithm", "yes"),
    ],
)
def test_values_that_are_none(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        BrokerConfig({"listeners": "SSL://:9093", key: text})

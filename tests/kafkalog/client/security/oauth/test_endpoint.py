"""Tests of requests to a token endpoint."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.endpoint import TokenEndpointUnavailableError
from kafkalog.client.security.oauth.sources import TokenSource, make_source
from peers import require
from peers.process import free_port
from peers.security.certificates import make_certificates, missing
from tests.kafkalog.client.security.oauth.jwts import EC_KEY, RSA_KEY, claims_of, signed
from tests.kafkalog.client.security.oauth.token_server import Reply, TokenServer, token

BEARER_RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def source(url: str, jaas: Any = None, **properties: Any) -> TokenSource:
    """Make the source for an endpoint; property names are written with underscores."""
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.retry.backoff.max.ms": "1",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    return make_source(ClientConfig.from_dict(given).oauth, jaas or {})


def with_secret(url: str, **properties: Any) -> TokenSource:
    more = {"sasl_oauthbearer_client_id": "me", "sasl_oauthbearer_client_secret": "of-mine", **properties}
    return source(url, **more)


def test_client_credentials_by_the_names_of_kafka_4() -> None:
    with TokenServer() as server:
        found = source(
            server.url,
            sasl_oauthbearer_client_credentials_client_id="me",
            sasl_oauthbearer_client_credentials_client_secret="s:ü",
            sasl_oauthbearer_scope="a b",
        ).fetch()
    assert found.principal == "alice"
    assert found.issued_at is not None
    assert found.expires_at == pytest.approx(found.issued_at + 3600, abs=2)
    (asked,) = server.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "a b"}
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    scheme, _, credentials = asked.headers["Authorization"].partition(" ")
    assert (scheme, b64decode(credentials).decode()) == ("Basic", "me:s:ü")


def test_client_credentials_by_the_options_of_jaas() -> None:
    with TokenServer() as server:
        jaas = {"clientId": "a b", "clientSecret": "c/d", "scope": "x", "extension_logicalCluster": "lkc-1"}
        found = source(server.url, jaas, sasl_oauthbearer_header_urlencode="true").fetch()
    assert found.extensions == {"logicalCluster": "lkc-1"}
    assert server.asked[0].form["scope"] == "x"
    assert b64decode(server.asked[0].headers["Authorization"].split()[1]) == b"a+b:c%2Fd"


def test_client_credentials_by_the_names_of_librdkafka() -> None:
    with TokenServer() as server:
        found = with_secret(
            server.url,
            sasl_oauthbearer_method="oidc",
            sasl_oauthbearer_extensions="a=1,b=2",
            sasl_oauthbearer_scope="s",
        ).fetch()
    assert found.extensions == {"a": "1", "b": "2"}
    assert server.asked[0].form == {"grant_type": "client_credentials", "scope": "s"}


@pytest.mark.parametrize(
    ("lifetime", "is_known"), [(60, True), ("60", True), (0.5, True), (None, False), (True, False), ("soon", False)]
)
def test_an_opaque_token_ends_when_the_endpoint_says(lifetime: object, is_known: bool) -> None:
    with TokenServer(lambda asked: Reply(200, {"access_token": "opaque", "expires_in": lifetime})) as server:
        found = with_secret(server.url).fetch()
    assert found.value == "opaque"
    assert (found.expires_at < float("inf")) is is_known
    assert "opaque" not in repr(found)


@pytest.mark.parametrize("key", [RSA_KEY, EC_KEY], ids=["RS256", "ES256"])
def test_the_assertion_of_a_jwt_bearer_grant_is_signed(tmp_path: Path, key: Any) -> None:
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.as_pem(private=True))
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"sub": "from-the-template", "more": [1]}}')
    prefix = "sasl_oauthbearer_assertion_"
    with TokenServer() as server:
        source(
            server.url,
            sasl_oauthbearer_jwt_retriever_class=BEARER_RETRIEVER,
            **{
                f"{prefix}private_key_file": pem,
                f"{prefix}algorithm": "ES256" if key is EC_KEY else "RS256",
                f"{prefix}template_file": template,
                f"{prefix}claim_iss": "me",
                f"{prefix}claim_aud": "them",
                f"{prefix}claim_jti_include": "true",
            },
        ).fetch()
    form = server.asked[0].form
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert "Authorization" not in server.asked[0].headers
    claims = claims_of(form["assertion"], key)
    assert (claims["iss"], claims["aud"], claims["sub"], claims["more"]) == ("me", "them", "from-the-template", [1])
    assert claims["exp"] - claims["iat"] == 300
    assert claims["iat"] - claims["nbf"] == 60
    assert claims["jti"]


def test_an_assertion_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    with TokenServer() as server:
        endpoint = source(
            server.url,
            sasl_oauthbearer_grant_type="urn:ietf:params:oauth:grant-type:jwt-bearer",
            sasl_oauthbearer_assertion_file=file,
        )
        with pytest.raises(AuthenticationError, match=r"sasl\.oauthbearer\.assertion\.file=.*No such file"):
            endpoint.fetch()
        for text in ("a.b.c", "d.e.f\n"):
            file.write_text(text)
            endpoint.fetch()
    assert [asked.form["assertion"] for asked in server.asked] == ["a.b.c", "d.e.f"]


def test_a_client_authenticates_by_an_assertion(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("a.b.c")
    with TokenServer() as server:
        source(server.url, sasl_oauthbearer_assertion_file=file, sasl_oauthbearer_client_id="me").fetch()
    assert server.asked[0].form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        "client_id": "me",
    }


@pytest.mark.parametrize(
    ("pem", "properties", "words"),
    [
        (b"no key", {}, "no private key in PEM.*passphrase"),
        (EC_KEY.as_pem(private=True), {}, "no RSA key.*ES256"),
        (RSA_KEY.as_pem(private=True), {"sasl_oauthbearer_assertion_algorithm": "ES256"}, "no key of the curve P-256"),
        (
            RSA_KEY.as_pem(private=True, password="right"),
            {"sasl_oauthbearer_assertion_private_key_passphrase": "tell-nobody"},
            "a wrong passphrase",
        ),
    ],
    ids=["no key", "another kind", "another curve", "wrong passphrase"],
)
def test_keys_that_cannot_sign(tmp_path: Path, pem: bytes, properties: dict[str, str], words: str) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem)
    endpoint = source(
        "http://127.0.0.1:1/",
        sasl_oauthbearer_jwt_retriever_class=BEARER_RETRIEVER,
        sasl_oauthbearer_assertion_private_key_file=file,
        **properties,
    )
    with pytest.raises(AuthenticationError, match=words) as caught:
        endpoint.fetch()
    assert "tell-nobody" not in str(caught.value)


def test_a_template_with_a_header_that_cannot_be_signed(tmp_path: Path) -> None:
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_bytes(RSA_KEY.as_pem(private=True))
    template.write_text('{"header": {"kid": 5}}')
    endpoint = source(
        "http://127.0.0.1:1/",
        sasl_oauthbearer_jwt_retriever_class=BEARER_RETRIEVER,
        sasl_oauthbearer_assertion_private_key_file=key,
        sasl_oauthbearer_assertion_template_file=template,
    )
    with pytest.raises(AuthenticationError, match=r"template\.json: the header cannot be signed: Key ID header"):
        endpoint.fetch()


def test_without_the_packages_that_sign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"needs the packages PyJWT and .*: pip install 'kafkalog\[oauth\]'"):
        source(
            "http://127.0.0.1:1/",
            sasl_oauthbearer_jwt_retriever_class=BEARER_RETRIEVER,
            sasl_oauthbearer_assertion_private_key_file=tmp_path / "key.pem",
        )


REFUSALS = [
    (
        Reply(401, {"error": "invalid_client", "error_description": "no such client; secret of-mine"}),
        r"HTTP 401 \(invalid_client: no such client; secret \[hidden\]\); check sasl\.oauthbearer\.client\.credentials",
    ),
    (Reply(400, {"error": "invalid_scope"}), r"HTTP 400 \(invalid_scope\); check sasl\.oauthbearer\.scope"),
    (Reply(403, b"<html>\nforbidden"), r"HTTP 403 \(<html> forbidden\); check sasl\.oauthbearer\.client"),
    (Reply(404), r"HTTP 404; check sasl\.oauthbearer\.token\.endpoint\.url"),
    (Reply(400, {"errorCode": "E1", "errorSummary": "why"}), r"\(E1: why\)"),
    (Reply(200, b"\xff"), "without access_token"),
    (Reply(200, {"access_token": 5}), "without access_token"),
    (Reply(200, {"access_token": "a.b.c"}), "not JSON"),
    (Reply(200, {"access_token": signed(exp="soon")}), "claim exp"),
    (Reply(200, b"x" * ((1 << 20) + 1)), "more than 1048576 bytes"),
    (Reply(302, b"", (("Location", "https://elsewhere.example/a?b=c"),)), r"leads to https://elsewhere\.example/a,"),
    (Reply(307, b"", (("Location", "https://elsewhere.example/a"),)), r"leads to https://elsewhere\.example/a,"),
    (Reply(307, b"", (("Location", "/token"),)), "more than 3 redirects"),
    (Reply(307, b"", (("Location", "http://[elsewhere"),)), "HTTP 307 leads to what is no URL"),
    (Reply(307, b"", (("Location", "http://elsewhere.example:port/"),)), "HTTP 307 leads to what is no URL"),
]


@pytest.mark.parametrize(("reply", "words"), REFUSALS)
def test_refusals_are_final_and_name_the_remedy(reply: Reply, words: str) -> None:
    with TokenServer(lambda asked: reply) as server:
        endpoint = with_secret(server.url, sasl_login_retry_backoff_max_ms="60000")
        with pytest.raises(AuthenticationError, match=words) as caught:
            endpoint.fetch()
    assert server.url in str(caught.value)
    assert "of-mine" not in str(caught.value)
    assert not isinstance(caught.value, TokenEndpointUnavailableError)


def test_a_redirect_to_the_same_origin_is_followed() -> None:
    replies = iter([Reply(308, b"", (("Location", "/other?x=1"),)), token()])
    with TokenServer(lambda asked: next(replies)) as server:
        assert with_secret(server.url).fetch().principal == "alice"
    assert [asked.form["grant_type"] for asked in server.asked] == ["client_credentials"] * 2


def test_what_may_pass_is_tried_again() -> None:
    replies = iter([Reply(503), Reply(500, {"error": "x"}), token()])
    with TokenServer(lambda asked: next(replies)) as server:
        found = with_secret(
            server.url, sasl_login_retry_backoff_ms="1", sasl_login_retry_backoff_max_ms="60000"
        ).fetch()
    assert found.principal == "alice"
    assert len(server.asked) == 3


def test_nobody_listens() -> None:
    with pytest.raises(TokenEndpointUnavailableError, match=r"refused; check sasl\.oauthbearer\.token\.endpoint\.url"):
        with_secret(f"http://127.0.0.1:{free_port()}/token").fetch()


def test_an_endpoint_that_is_silent_or_slow() -> None:
    """The limit is for the whole response: a byte now and then does not extend it."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not done.wait(0.01):
                    try:
                        peer.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            endpoint = with_secret(f"http://127.0.0.1:{listener.getsockname()[1]}/", sasl_login_read_timeout_ms="100")
            with pytest.raises(TokenEndpointUnavailableError, match=r"no answer within 0\.1 s"):
                endpoint.fetch()
        finally:
            done.set()
            thread.join(10)


@pytest.mark.usefixtures("processes")
def test_tls_of_the_endpoint(tmp_path: Path) -> None:
    require(missing())
    certificates = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    with TokenServer(tls=context) as server:
        assert with_secret(server.url, https_ca_location=certificates.authority).fetch().principal == "alice"
        assert with_secret(server.url, https_ca_pem=certificates.authority.read_text()).fetch().principal == "alice"
        jaas = {"ssl.truststore.location": str(certificates.authority), "ssl.truststore.type": "PEM"}
        assert with_secret(server.url, jaas=jaas).fetch().principal == "alice"
        for properties in ({}, {"https_ca_location": certificates.stranger}):
            with pytest.raises(AuthenticationError, match=r"certificate is refused.*https\.ca\.location"):
                with_secret(server.url, **properties).fetch()
        with pytest.raises(ConfigError, match=r"https\.ca\.location.*cannot be read"):
            with_secret(server.url, https_ca_location=tmp_path / "none")


@pytest.mark.parametrize("url", ["", "ftp://a/b", "https://", "https://u:p@host/", "http://[::1", "http://a:99999/"])
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url") as caught:
        with_secret(url)
    assert "u:p" not in str(caught.value)

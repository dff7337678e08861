"""Tests of where tokens come from: the choice, files, texts, providers, and tokens without a signature."""

from __future__ import annotations

import json
import pickle
import time
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.client.security.oauth.sources import TokenSource, make_source
from kafkalog.client.security.oauth.token import TokenError, read_token
from tests.kafkalog.client.security.oauth.jwts import signed

JAVA = "org.apache.kafka.common.security.oauthbearer"
HANDLER = "sasl.login.callback.handler.class"


def source(jaas: Any = None, **properties: Any) -> TokenSource:
    """Make a source; property names are written with underscores."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return choose(named, jaas)


def choose(properties: dict[str, Any], jaas: dict[str, str] | None = None) -> TokenSource:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    return make_source(ClientConfig.from_dict({**sasl, **properties}).oauth, jaas or {})


class Provider:
    """A provider as kafka-python has it, with what Java's login handlers have besides."""

    configured: dict[str, str] | None = None

    def configure(self, options: dict[str, str]) -> None:
        Provider.configured = options

    def token(self) -> str:
        return signed(sub="bob")

    def extensions(self) -> dict[str, str]:
        return {"a": "1"}


class Broken:
    def __init__(self) -> None:
        raise OSError("no luck")


class WithoutToken:
    pass


# Files and texts


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    tokens = source(sasl_oauthbearer_token_endpoint_url=file.as_uri())
    with pytest.raises(AuthenticationError, match=r"sasl\.oauthbearer\.token\.endpoint\.url=.*a token: No such file"):
        tokens.fetch()
    for name in ("alice", "bob"):
        file.write_text(signed(sub=name) + "\n")
        assert tokens.fetch().principal == name
    for content, words in ((b" \n", "empty"), (b"\xff\xfe", "no text"), (b"a.b.c", "not JSON")):
        file.write_bytes(content)
        with pytest.raises(AuthenticationError, match=words):
            tokens.fetch()


def test_a_retriever_that_does_not_fit_the_url(tmp_path: Path) -> None:
    retriever = f"{JAVA}.FileJwtRetriever"
    properties = {"sasl_oauthbearer_jwt_retriever_class": retriever}
    assert source(sasl_oauthbearer_token_endpoint_url="file:/a", **properties).name.endswith("=/a")
    with pytest.raises(ConfigError, match=r"jwt\.retriever\.class=.*does not fit"):
        source(sasl_oauthbearer_token_endpoint_url="https://host/", **properties)


def test_the_configuration_has_the_token() -> None:
    text = signed(sub="carol")
    assert source(sasl_oauthbearer_token=text).fetch().principal == "carol"
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token: the token is empty"):
        source(sasl_oauthbearer_token=" ")


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda data: f"a.{data.hex()}.b"))
def test_whatever_text_is_a_token_or_refused(text: str) -> None:
    try:
        found = read_token(text).value
    except TokenError:
        return
    assert found == text.strip()


# Providers


def test_a_class_by_its_name() -> None:
    tokens = choose({HANDLER: f"{__name__}.Provider"}, {"own": "option"})
    assert Provider.configured == {"own": "option"}
    found = tokens.fetch()
    assert (found.principal, found.extensions) == ("bob", {"a": "1"})
    assert (
        choose(
            {
                "sasl.oauthbearer.token.endpoint.url": "https://host/",
                "sasl.oauthbearer.jwt.retriever.class": f"{__name__}.Provider",
            }
        )
        .fetch()
        .principal
        == "bob"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("com.example.OAuthHandler", "no such Python class.*Java classes cannot be loaded"),
        ("Handler", "module.Class"),
        (f"{__name__}.Missing", "no such Python class"),
        (f"{__name__}.Broken", "OSError: no luck"),
        (f"{__name__}.WithoutToken", r"no method token\(\)"),
    ],
)
def test_classes_that_cannot_be_used(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"sasl\.login\.callback\.handler\.class={name}: .*{words}"):
        choose({HANDLER: name})


def test_an_object_like_kafka_pythons() -> None:
    found = choose({"sasl_oauth_token_provider": Provider(), "sasl.oauthbearer.extensions": "b=2"}).fetch()
    assert (found.principal, found.extensions) == ("bob", {"a": "1", "b": "2"})
    with pytest.raises(ConfigError, match=r"sasl_oauth_token_provider: expected an object with a method token"):
        choose({"sasl_oauth_token_provider": "text"})


def test_a_function_like_confluents() -> None:
    asked = []

    def tokens(config: str) -> tuple[Any, ...]:
        asked.append(config)
        return ("opaque", time.time() + 60, "dora", {"a": "1"}) if len(asked) > 1 else (signed(sub="eve"), 2e9)

    found = choose({"oauth_cb": tokens, "sasl.oauthbearer.config": "own text"})
    first, second = found.fetch(), found.fetch()
    assert asked == ["own text"] * 2
    assert (first.principal, first.expires_at) == ("eve", 2e9)
    assert (second.value, second.principal, second.extensions) == ("opaque", "dora", {"a": "1"})
    with pytest.raises(ConfigError, match="oauth_cb: expected a function"):
        choose({"oauth_cb": "name"})


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "returned NoneType"),
        ((), "returned NoneType"),
        (("token", "soon"), "no time in seconds"),
        (("", 2e9), "the token is empty"),
        (("token", 2e9, "me", 5), "cannot be used"),
    ],
)
def test_functions_that_return_no_token(returned: Any, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        choose({"oauth_cb": lambda config: returned}).fetch()


def test_a_function_that_fails() -> None:
    def fail(config: str) -> None:
        raise KeyError("missing")

    with pytest.raises(AuthenticationError, match=r"no token from oauth_cb .*fail: KeyError: 'missing'"):
        choose({"oauth_cb": fail}).fetch()


# Tokens without a signature


def parts_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, payload, signature = token.split(".")
    assert signature == ""
    decoded = (json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, payload))
    return next(decoded), next(decoded)


def test_unsecured_tokens_of_java() -> None:
    jaas = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "5",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
    }
    found = source(jaas).fetch()
    header, claims = parts_of(found.value)
    assert header == {"alg": "none"}
    assert claims["exp"] == pytest.approx(claims["iat"] + 60)
    assert claims["iat"] == pytest.approx(time.time(), abs=60)
    assert (claims["sub"], claims["level"], claims["scope"]) == ("alice", 5, ["a", "b"])
    assert (found.principal, found.expires_at, found.extensions) == ("alice", claims["exp"], {"traceId": "123"})
    handler = f"{JAVA}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
    assert choose({HANDLER: handler}, jaas).fetch().principal == "alice"


def test_unsecured_tokens_of_librdkafka() -> None:
    found = choose(
        {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=admin scope=a,b lifeSeconds=60 extension_x=y",
        }
    ).fetch()
    claims = parts_of(found.value)[1]
    assert (claims["sub"], claims["scope"], found.extensions) == ("admin", ["a", "b"], {"x": "y"})


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        ({"unsecuredLoginNumberClaim_a": "1"}, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginStringClaim_sub": ""}, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginStringClaim_exp": "1"}, "unsecuredLoginStringClaim_exp"),
        ({"unsecuredLoginNumberClaim_a": "b"}, "unsecuredLoginNumberClaim_a"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "long"}, "LifetimeSeconds"),
        ({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginExtension_1": "x"}, "extension"),
    ],
)
def test_options_of_unsecured_tokens_that_cannot_be_used(jaas: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        source(jaas)


# The choice


def test_names_of_classes_may_be_those_of_databricks() -> None:
    jaas = {"clientId": "me", "clientSecret": "s"}
    endpoint = {"sasl.oauthbearer.token.endpoint.url": "https://host/token"}
    handler = f"kafkashaded.{JAVA}.secured.OAuthBearerLoginCallbackHandler"
    assert choose({HANDLER: handler, **endpoint}, jaas).name == "the token endpoint https://host/token"
    retriever = f"kafkashaded.{JAVA}.ClientCredentialsJwtRetriever"
    chosen = choose({"sasl.oauthbearer.jwt.retriever.class": retriever, **endpoint}, jaas)
    assert chosen.name == "the token endpoint https://host/token"


def test_without_a_source_the_choices_are_named() -> None:
    with pytest.raises(ConfigError, match=r"needs a source of tokens: set sasl\.oauthbearer\.token\.endpoint\.url"):
        source()
    with pytest.raises(ConfigError, match=r"OAuthBearerLoginCallbackHandler needs sasl\.oauthbearer\.token\.endpoint"):
        choose({HANDLER: f"{JAVA}.OAuthBearerLoginCallbackHandler"})
    with pytest.raises(ConfigError, match=r"needs .*client\.id and .*client\.secret"):
        source(sasl_oauthbearer_token_endpoint_url="https://host/")
    with pytest.raises(ConfigError, match=r"assertion\.file or .*private\.key\.file"):
        choose(
            {
                "sasl.oauthbearer.token.endpoint.url": "https://host/",
                "sasl.oauthbearer.jwt.retriever.class": f"{JAVA}.JwtBearerJwtRetriever",
            }
        )


def test_the_options_go_to_the_tasks_of_spark() -> None:
    config = ClientConfig.from_dict({"sasl.oauthbearer.token": "opaque", "sasl.oauthbearer.extensions": "a=1"})
    assert pickle.loads(pickle.dumps(config)) == config


def test_no_secret_is_shown() -> None:
    config = ClientConfig.from_dict(
        {
            "sasl.oauthbearer.client.secret": "tell-nobody",
            "sasl.oauthbearer.token": "tell-nobody",
            "sasl.oauthbearer.config": "tell-nobody",
            "sasl.oauthbearer.assertion.private.key.pem": "tell-nobody",
            "sasl.oauthbearer.assertion.private.key.passphrase": "tell-nobody",
        }
    )
    assert "tell-nobody" not in repr(config) + repr(config.oauth)

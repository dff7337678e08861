"""Test the keys of one listener, `listener.name.<listener>.<key>`, and of one of its SASL mechanisms."""

from __future__ import annotations

import pytest

from broker.config.definition import ConfigDefinition, ConfigError, ConfigKey, Scope, Type, at_least, one_of
from broker.config.security.listener_config import ListenerConfig, without_listener

KEYS = ConfigDefinition(
    [
        ConfigKey("auth", Type.STRING, "none", "", one_of("none", "all"), scope=Scope.LISTENER),
        ConfigKey("store.password", Type.PASSWORD, None, "", scope=Scope.LISTENER),
        ConfigKey("jaas.config", Type.PASSWORD, None, "", scope=Scope.MECHANISM),
        ConfigKey("reauth.ms", Type.LONG, 0, "", at_least(0), scope=Scope.MECHANISM),
        ConfigKey("broker.id", Type.INT, 1, ""),
    ]
)


def in_force(texts: dict[str, str], listener: str = "OUTSIDE") -> ListenerConfig:
    return ListenerConfig(KEYS, KEYS.parse(texts), listener)


def test_a_listeners_own_value_counts_before_the_brokers_and_that_before_the_default() -> None:
    texts = {"auth": "all", "listener.name.outside.auth": "none", "listener.name.inside.store.password": "s"}
    assert in_force(texts)["auth"] == "none"
    assert in_force(texts, "INSIDE")["auth"] == "all"
    assert in_force({})["auth"] == "none"
    assert in_force(texts)["store.password"] is None, "the value of another listener"
    assert in_force(texts, "INSIDE").own("store.password") == "s"
    assert in_force(texts, "INSIDE").own("auth") is None, "the broker's value is not the listener's own"


def test_a_mechanism_has_values_of_its_own() -> None:
    texts = {
        "reauth.ms": "1",
        "listener.name.outside.reauth.ms": "2",
        "listener.name.outside.scram-sha-256.reauth.ms": "3",
        "listener.name.outside.plain.jaas.config": "x",
    }
    listener = in_force(texts)
    assert listener["reauth.ms"] == 2
    assert listener.of_mechanism("SCRAM-SHA-256")["reauth.ms"] == 3
    assert listener.of_mechanism("PLAIN")["reauth.ms"] == 2
    assert in_force(texts, "INSIDE").of_mechanism("PLAIN")["reauth.ms"] == 1
    assert listener.of_mechanism("PLAIN").own("jaas.config") == "x"
    assert listener["jaas.config"] is None


def test_a_listeners_name_may_have_dots() -> None:
    listener = in_force({"listener.name.dc.1_a.auth": "all"}, "DC.1_A")
    assert listener["auth"] == "all"
    assert listener.name_of("auth") == "listener.name.dc.1_a.auth"


def test_messages_name_the_key_that_is_set() -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.outside\.auth: String must be one of: none, all"):
        in_force({"listener.name.outside.auth": "some"})
    assert in_force({"auth": "all"}).name_of("auth") == "auth"
    assert in_force({}).of_mechanism("PLAIN").name_to_set("jaas.config") == "listener.name.outside.plain.jaas.config"


def test_no_value_of_a_password_is_shown() -> None:
    assert KEYS["listener.name.outside.store.password"].sensitive
    with pytest.raises(ConfigError) as refused:
        in_force({"listener.name.outside.store.password": "hush" * (1 << 19)})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["listener.name.outside.broker.id", "listener.name.auth", "listener.name..auth", "listener.name.outside.x"]
)
def test_only_keys_of_listeners_have_prefixes(name: str) -> None:
    assert name not in KEYS
    assert KEYS.get(name) is None


def test_values_that_no_listener_looks_up_are_found() -> None:
    names = [
        "auth",
        "listener.name.outside.auth",
        "listener.name.outside.plain.reauth.ms",
        "listener.name.inside.auth",
        "listener.name.outside.plain.auth",
        "listener.name.outside.digest.reauth.ms",
    ]
    assert without_listener(KEYS, names, ["OUTSIDE"]) == names[3:]

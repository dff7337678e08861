"""The configuration of a secured session with ZooKeeper, and its errors."""

from __future__ import annotations

import ssl

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.modes.zookeeper_security import security
from kafkalog.client.zookeeper.security import DIGEST
from kafkalog.zookeeper.security import PLAIN, Login

JAAS = "kafkalog.zookeeper.sasl.jaas.config"
SECRET = "xyzzy"
VERSION = ssl.TLSVersion
TLS = {"zookeeper.ssl.client.enable": "true"}


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({"zookeeper.connect": "x:1", **settings})


def test_nothing_is_secured_unless_it_is_asked_for() -> None:
    assert security(config()) == PLAIN
    assert security(config(**{"zookeeper.ssl.truststore.location": "/nowhere"})) == PLAIN


def test_a_login_is_that_of_the_module() -> None:
    found = security(config(**{JAAS: f'{DIGEST} required username="kafka" password="{SECRET}";'}))
    assert found.login == Login("kafka", SECRET)
    assert SECRET not in repr(found)


def test_tls_has_the_versions_that_are_set() -> None:
    found = security(config(**TLS))
    assert found.tls is not None
    assert (found.tls().minimum_version, found.tls().maximum_version) == (VERSION.TLSv1_2, VERSION.TLSv1_3)
    assert found.tls().check_hostname
    unnamed = {"zookeeper.ssl.endpoint.identification.algorithm": ""}
    found = security(config(**TLS, **unnamed, **{"zookeeper.ssl.enabled.protocols": "TLSv1.2"}))
    assert found.tls is not None
    assert found.tls().maximum_version == VERSION.TLSv1_2
    assert not found.tls().check_hostname
    found = security(config(**TLS, **{"zookeeper.ssl.protocol": "TLSv1.3"}))
    assert found.tls is not None
    assert found.tls().minimum_version == VERSION.TLSv1_3


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl is true, and there is no identity: set kafkalog"),
        ({"zookeeper.set.acl": "true", **TLS}, "zookeeper.set.acl is true, and there is no identity"),
        (
            {**TLS, "zookeeper.ssl.truststore.location": "/nowhere"},
            "zookeeper.ssl.truststore.location=/nowhere: cannot",
        ),
        (
            {**TLS, "zookeeper.ssl.truststore.password": "x"},
            "zookeeper.ssl.truststore.password is set, and zookeeper.ss",
        ),
        ({**TLS, "zookeeper.ssl.protocol": "SSLv3"}, "zookeeper.ssl.enabled.protocols=SSLv3: expected"),
        ({JAAS: f'PlainLoginModule required password="{SECRET}";'}, "the login module is not known; the one that is"),
        ({JAAS: f'{DIGEST} required password="{SECRET}";'}, "username or password is missing; write it as in"),
        (
            {JAAS: f'{DIGEST} required username="a" password="{SECRET}'},
            "close the quotes; write it as in: org.apache.zoo",
        ),
    ],
)
def test_mistakes_name_the_key_and_no_secret(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        security(config(**settings))
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"])
def test_a_check_that_is_not_made_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="revoked certificates are not looked for"):
        config(**{key: "true"})

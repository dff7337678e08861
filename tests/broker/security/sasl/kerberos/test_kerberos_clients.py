"""Test clients that log in by tickets of a KDC, ours and Java's, and tickets that are not accepted."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.gates import Gates
from kafkalog.client.admin import Admin
from kafkalog.client.errors import AuthenticationError
from peers import require
from peers.brokers import kafka
from peers.security.kerberos import REALM, Kdc
from tests.support.secured.sasl_broker import PREFIX, SaslBroker
from tests.support.secured.uses import produce, read_as_member

pytestmark = [pytest.mark.timeout(300)]

SERVICE = f"kafka/localhost@{REALM}"
"""Java asks for a ticket by the host's name, even if it connects to an address."""
_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def settings(keytab: Path, principal: str = SERVICE) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://localhost:0",
        f"{PREFIX}.sasl.enabled.mechanisms": "GSSAPI,PLAIN",
        f"{PREFIX}.gssapi.sasl.jaas.config": (
            f'{_MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'
        ),
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1;$2](.*;admin)s/;admin/-admin/,DEFAULT",
    }


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    if importlib.util.find_spec("gssapi") is None:
        require("missing because the package gssapi is not installed (pip install 'kafkalog[gssapi]')")
    with SaslBroker(tmp_path_factory.mktemp("kerberos-broker"), settings(kdc.keytab("broker", SERVICE))) as running:
        yield running


def properties(broker: SaslBroker, keytab: Path, principal: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.sasl_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": f'{_MODULE} useKeyTab=true keyTab="{keytab}" principal="{principal}" serviceName="kafka";',
    }


def test_our_own_clients(broker: SaslBroker, kdc: Kdc) -> None:
    config = properties(broker, kdc.keytab("ann", "ann", "ann/admin"), f"ann@{REALM}")
    assert produce(config, "words") == 0
    assert read_as_member(config, "words") == [b"x"]
    assert produce(properties(broker, kdc.keytab("ann", "ann", "ann/admin"), f"ann/admin@{REALM}"), "words") == 1


def test_java(broker: SaslBroker, kdc: Kdc, tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_4))
    config = tmp_path / "client.properties"
    made = properties(broker, kdc.keytab("java", "jane"), f"jane@{REALM}")
    config.write_text("".join(f"{name}={value}\n" for name, value in made.items()))
    words = ["--bootstrap-server", broker.sasl_address, "--command-config", str(config), "--list"]
    before = kafka.JVM_EXTRA[:]
    kafka.JVM_EXTRA.append(f"-Djava.security.krb5.conf={kdc.config}")
    try:
        assert "Exception" not in kafka.run_java_tool("org.apache.kafka.tools.TopicCommand", words, kafka.KAFKA_4)
    finally:
        kafka.JVM_EXTRA[:] = before


def test_a_ticket_for_a_key_that_the_keytab_lacks(broker: SaslBroker, kdc: Kdc) -> None:
    kdc.change_keys(SERVICE)
    fresh = properties(broker, kdc.keytab("late", "late"), f"late@{REALM}")
    with pytest.raises(AuthenticationError, match="keytab has the present key"):
        Admin(fresh).list_topics()
    broker.wait_logged("closing connection from 127.0.0.1 on SASL_PLAINTEXT: GSSAPI: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({f"{PREFIX}.gssapi.sasl.jaas.config": f"{_MODULE};"}, "GSSAPI needs the broker's keytab and principal"),
        ({f"{PREFIX}.gssapi.sasl.jaas.config": f'{_MODULE} keyTab="k" principal="kafka/h";'}, "the realm is missing"),
        ({f"{PREFIX}.gssapi.sasl.jaas.config": f'{_MODULE} keyTab="k" principal="a/b/c@R";'}, "no name of Kerberos"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE"}, "sasl.kerberos.principal.to.local.rules: RULE is no rule"),
        ({}, "the keytab /none has no key of kafka/localhost@"),
    ],
)
def test_what_is_refused_at_the_start(change: dict[str, str], words: str) -> None:
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", f"{PREFIX}.sasl.enabled.mechanisms": "GSSAPI"}
    if words.startswith("the keytab"):
        pytest.importorskip("gssapi")
    with pytest.raises(ConfigError) as caught:
        Gates(BrokerConfig({**settings(Path("/none")), **listeners, **change}))
    assert words in str(caught.value)

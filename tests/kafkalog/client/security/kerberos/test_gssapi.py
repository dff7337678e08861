"""Tests of GSSAPI with a KDC and Apache Kafka: keytabs and ticket caches, and one clear line for what goes wrong."""

from __future__ import annotations

import importlib.util
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConfigError
from kafkalog.client.network.connection import Connection
from kafkalog.client.producer import Producer
from kafkalog.client.security.kerberos.options import KerberosLogin
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.schema import Request
from peers import require
from peers.brokers.kafka import KAFKA_4
from peers.brokers.secured_kafka import ALICE, BOB, LISTENERS, SERVICE, SecuredKafka
from peers.security.kerberos import REALM, Kdc
from tests.support.scripted import Handler, ScriptedBroker

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

WITHIN_S = 5.0
"""The time within which a client must report an error."""


@pytest.fixture(scope="module")
def tickets(kdc: Kdc) -> Kdc:
    missing = importlib.util.find_spec("gssapi") is None
    require("missing because the package gssapi is not installed (pip install 'kafkalog[gssapi]')" if missing else None)
    return kdc


@pytest.fixture(scope="module")
def keytab(tickets: Kdc) -> Path:
    return tickets.keytab("users", ALICE, BOB)


@pytest.fixture
def broker(tickets: Kdc, secured_kafkas: Callable[[str], SecuredKafka]) -> SecuredKafka:
    return secured_kafkas(KAFKA_4)


def krb5(**options: Any) -> str:
    """Return the text that Java's clients have in `sasl.jaas.config`."""
    written = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"com.sun.security.auth.module.Krb5LoginModule required {written};"


def properties(address: str, protocol: str = "SASL_PLAINTEXT", **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": protocol,
        "sasl.mechanism": "GSSAPI",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def by_keytab(address: str, keytab: Path, principal: str = ALICE, **more: Any) -> dict[str, Any]:
    return properties(address, sasl_kerberos_keytab=keytab, sasl_kerberos_principal=principal, **more)


def create(config: dict[str, Any]) -> None:
    """Create a topic, which only super users may do."""
    with Admin(ClientConfig.from_dict(config)) as admin:
        admin.create_topics([NewTopic(f"gssapi-{uuid.uuid4().hex[:12]}", 1, 1)])


def connect(config: dict[str, Any], host: str | None = None) -> None:
    parsed = ClientConfig.from_dict(config)
    [(address, port)] = parsed.bootstrap_servers
    Connection(host or address, port, parsed, timeout=WITHIN_S, mechanisms=make_mechanisms(parsed)).close()


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_keytab_in_javas_words(secured: SecuredKafka, keytab: Path, listener: str) -> None:
    jaas = krb5(useKeyTab="true", storeKey="true", keyTab=keytab, principal=f"{ALICE}@{REALM}", serviceName="kafka")
    config = properties(secured.addresses[listener], LISTENERS[listener], sasl_jaas_config=jaas)
    create(config | {"ssl.ca.location": secured.certificates.authority})


def test_a_keytab_in_the_words_of_librdkafka(broker: SecuredKafka, keytab: Path) -> None:
    address = broker.addresses["SASL_PLAINTEXT"]
    create(by_keytab(address, keytab))
    with pytest.raises(KafkaError, match=r"AUTHORIZATION_FAILED"):
        create(by_keytab(address, keytab, BOB))


def test_a_ticket_cache(broker: SecuredKafka, tickets: Kdc, keytab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tickets.ticket_cache("alice", ALICE, keytab)
    address = broker.addresses["SASL_PLAINTEXT"]
    create(properties(address, sasl_jaas_config=krb5(useTicketCache="true", ticketCache=cache)))
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    create(properties(address, sasl_kerberos_service_name="kafka"))
    create(properties(address, sasl_jaas_config=krb5(useTicketCache="true", serviceName="kafka")))


def test_a_keytab_where_the_cache_has_no_ticket(broker: SecuredKafka, keytab: Path, tmp_path: Path) -> None:
    options = {"useTicketCache": "true", "ticketCache": tmp_path / "none", "useKeyTab": "true", "keyTab": keytab}
    create(properties(broker.addresses["SASL_PLAINTEXT"], sasl_jaas_config=krb5(**options)))


def test_tickets_are_fetched_once_for_all_connections(broker: SecuredKafka, tickets: Kdc, keytab: Path) -> None:
    """Later connections need no KDC until the tickets' time is over."""
    config = ClientConfig.from_dict(by_keytab(broker.addresses["SASL_PLAINTEXT"], keytab))
    make = make_mechanisms(config)
    [(host, port)] = config.bootstrap_servers
    Connection(host, port, config, mechanisms=make).close()
    tickets.stop()
    try:
        for _ in range(3):
            Connection(host, port, config, mechanisms=make).close()
    finally:
        tickets.start()


def test_a_ticket_is_renewed(broker: SecuredKafka, tickets: Kdc, keytab: Path) -> None:
    """A window of zero makes the renewal due for a ticket that is younger than one seen before."""
    cache = tickets.ticket_cache("renewed", ALICE, keytab, "-l", "1h", "-r", "2d")
    # The beginning has the key of the first ticket; tickets of services are appended.
    before = cache.read_bytes()[:400]
    config = ClientConfig.from_dict(
        properties(
            broker.addresses["SASL_PLAINTEXT"],
            sasl_jaas_config=krb5(useTicketCache="true", ticketCache=cache),
            sasl_kerberos_ticket_renew_window_factor="0",
            sasl_kerberos_ticket_renew_jitter="0",
        )
    )
    make = make_mechanisms(config)
    [(host, port)] = config.bootstrap_servers
    end = time.monotonic() + 60
    while cache.read_bytes()[:400] == before:
        assert time.monotonic() < end
        Connection(host, port, config, mechanisms=make).close()


def test_what_cannot_be_renewed_is_told_and_used(
    broker: SecuredKafka, tickets: Kdc, keytab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tickets.ticket_cache("fixed", ALICE, keytab, "-l", "1h")
    config = ClientConfig.from_dict(
        properties(
            broker.addresses["SASL_PLAINTEXT"],
            sasl_jaas_config=krb5(useTicketCache="true", ticketCache=cache),
            sasl_kerberos_ticket_renew_window_factor="0",
            sasl_kerberos_ticket_renew_jitter="0",
        )
    )
    make = make_mechanisms(config)
    [(host, port)] = config.bootstrap_servers
    end = time.monotonic() + 60
    while not caplog.messages:
        assert time.monotonic() < end
        Connection(host, port, config, mechanisms=make).close()
    assert "does not renew it" in caplog.messages[0]
    assert "run kinit, or use a keytab" in caplog.messages[0]


def test_no_ticket(broker: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = broker.addresses["SASL_PLAINTEXT"]
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none.cache"))
    with pytest.raises(AuthenticationError, match=r"no ticket in .*none\.cache: run kinit, or set sasl\.kerberos"):
        connect(properties(address))
    other = krb5(useTicketCache="true", ticketCache=tmp_path / "other.cache")
    with pytest.raises(AuthenticationError, match=r"no ticket in .*other\.cache: run kinit, or set keyTab of sasl"):
        connect(properties(address, sasl_jaas_config=other))
    (tmp_path / "damaged.cache").write_bytes(b"junk")
    damaged = krb5(useTicketCache="true", ticketCache=tmp_path / "damaged.cache")
    with pytest.raises(AuthenticationError, match=r"damaged\.cache cannot be used: .*run kinit"):
        connect(properties(address, sasl_jaas_config=damaged))


def test_an_expired_ticket(broker: SecuredKafka, tickets: Kdc, keytab: Path) -> None:
    cache = tickets.ticket_cache("short", ALICE, keytab, "-l", "1s")
    config = properties(
        broker.addresses["SASL_PLAINTEXT"], sasl_jaas_config=krb5(useTicketCache="true", ticketCache=cache)
    )
    said = ""
    end = time.monotonic() + 60
    while "expired" not in said:
        assert time.monotonic() < end
        try:
            connect(config)
        except AuthenticationError as error:
            said = str(error)
    assert "short.cache has expired: run kinit" in said


def test_a_ticket_that_expires_while_a_client_logs_in(tickets: Kdc, keytab: Path) -> None:
    from kafkalog.client.security.kerberos import library

    cache = tickets.ticket_cache("expiring", ALICE, keytab, "-l", "5s")
    tickets.keytab("service", SERVICE)
    login = KerberosLogin("kafka", None, None, True, str(cache), "sasl.kerberos.keytab", "sasl.kerberos.principal")
    credentials = library.from_cache(login)

    def begin_until_it_fails() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            library.Context(login, "127.0.0.1", credentials).begin()

    with pytest.raises(AuthenticationError, match=r"expiring\.cache has expired: run kinit"):
        begin_until_it_fails()
    assert credentials.principal == f"{ALICE}@{REALM}"
    assert 0 < credentials.lifetime <= 5


def test_keytabs_that_do_not_fit(broker: SecuredKafka, tickets: Kdc, keytab: Path, tmp_path: Path) -> None:
    address = broker.addresses["SASL_PLAINTEXT"]
    with pytest.raises(AuthenticationError, match=r"absent\.keytab.*No such file.*check sasl\.kerberos\.keytab"):
        connect(by_keytab(address, tmp_path / "absent.keytab"))
    (tmp_path / "junk.keytab").write_bytes(b"junk")
    with pytest.raises(AuthenticationError, match=r"junk\.keytab.*this is no keytab"):
        connect(by_keytab(address, tmp_path / "junk.keytab"))
    with pytest.raises(AuthenticationError, match=rf"it has keys of {ALICE}@{REALM}, {BOB}@{REALM}, not of carol"):
        connect(by_keytab(address, keytab, "carol"))
    old = tickets.keytab("old", "dave")
    tickets.change_keys("dave")
    with pytest.raises(AuthenticationError, match=r"old\.keytab has an old key of dave .*export it again"):
        connect(by_keytab(address, old, "dave"))
    gone = tickets.keytab("gone", "erin")
    tickets.delete("erin")
    with pytest.raises(AuthenticationError, match=r"the KDC refuses erin .*check sasl\.kerberos\.principal"):
        connect(by_keytab(address, gone, "erin"))


def test_services_that_nobody_knows(broker: SecuredKafka, tickets: Kdc, keytab: Path) -> None:
    address = broker.addresses["SASL_PLAINTEXT"]
    with pytest.raises(AuthenticationError, match=r"does not know the broker as kafka/localhost: check sasl\.kerberos"):
        connect(by_keytab(address, keytab), "localhost")
    with pytest.raises(AuthenticationError, match=r"does not know the broker as kafak/127\.0\.0\.1"):
        connect(by_keytab(address, keytab, sasl_kerberos_service_name="kafak"))


def test_a_service_whose_key_the_broker_lacks(secured: SecuredKafka, tickets: Kdc, keytab: Path) -> None:
    tickets.keytab("another", "another/127.0.0.1")
    config = by_keytab(secured.addresses["SASL_PLAINTEXT"], keytab, sasl_kerberos_service_name="another")
    with pytest.raises(AuthenticationError, match=rf"refuses principal '{ALICE}@{REALM}' .GSSAPI.") as caught:
        connect(config)
    assert "\n" not in str(caught.value)
    with Producer(config) as producer:
        assert isinstance(producer.send("any", b"x").exception(WITHIN_S), AuthenticationError)


@pytest.fixture
def other_kdc(tickets: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a krb5.conf with another address of the KDC, and use it."""

    def use(address: str) -> None:
        lines = tickets.config.read_text().splitlines()
        (tmp_path / "krb5.conf").write_text(
            "\n".join(f"    kdc = {address}" if line.strip().startswith("kdc =") else line for line in lines) + "\n"
        )
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))

    return use


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a port that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_no_kdc(broker: SecuredKafka, keytab: Path, other_kdc: Callable[[str], None], tmp_path: Path) -> None:
    other_kdc("127.0.0.1:1")
    with pytest.raises(AuthenticationError, match=rf"no KDC can be asked: .*{REALM}.*its kdc in {tmp_path}/krb5\.conf"):
        connect(by_keytab(broker.addresses["SASL_PLAINTEXT"], keytab))


def test_a_kdc_that_does_not_answer(
    broker: SecuredKafka, keytab: Path, other_kdc: Callable[[str], None], silent: int
) -> None:
    other_kdc(f"127.0.0.1:{silent}")
    config = ClientConfig.from_dict(by_keytab(broker.addresses["SASL_PLAINTEXT"], keytab))
    make = make_mechanisms(config)
    assert make is not None
    with pytest.raises(ClientTimeoutError, match=r"the KDC has not answered in time; check kdc in krb5\.conf"):
        make("127.0.0.1", time.monotonic() + 0.5)


def test_a_listener_without_gssapi(broker: SecuredKafka, keytab: Path) -> None:
    config = by_keytab(broker.addresses["OAUTH"], keytab, ssl_ca_location=broker.certificates.authority)
    with pytest.raises(AuthenticationError, match=r"does not take sasl\.mechanism=GSSAPI; it offers: OAUTHBEARER"):
        connect(config | {"security.protocol": "SASL_SSL"})


def test_a_broker_that_cannot_prove_who_it_is(tickets: Kdc, keytab: Path) -> None:
    """A server that accepts everything is not taken for the service."""
    handlers: dict[type[Request], Handler] = {
        SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["GSSAPI"]),
        SaslAuthenticateRequest: lambda request: SaslAuthenticateResponse(auth_bytes=b"anything"),
    }
    with (
        ScriptedBroker(handlers) as server,
        pytest.raises(AuthenticationError, match=r"kafka/127\.0\.0\.1 could not prove who it is"),
    ):
        connect(by_keytab(server.address, keytab))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = sys.modules["kafkalog.client.security.kerberos"]
    monkeypatch.setitem(sys.modules, "gssapi", None)
    for name in ("library", "factory"):
        monkeypatch.delitem(sys.modules, f"{package.__name__}.{name}", raising=False)
        monkeypatch.delattr(package, name, raising=False)
    with pytest.raises(ConfigError, match=r"needs the package gssapi: pip install 'kafkalog\[gssapi\]'"):
        make_mechanisms(ClientConfig.from_dict(properties("127.0.0.1:9092")))

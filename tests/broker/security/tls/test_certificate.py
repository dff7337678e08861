"""Test that certificates are read."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from broker.security.tls.certificate import read_certificate
from broker.security.tls.der import DerError
from tests.support.secured.authority import DAY, authority, server_file


def der_of(path: Path) -> bytes:
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


def test_what_a_certificate_says() -> None:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."), x509.NameAttribute(NameOID.COMMON_NAME, "ä")]
    )
    found = read_certificate(der_of(authority().sign(subject, begin=2 * DAY, end=3 * DAY)))
    assert found.subject == "CN=ä,O=Acme\\, Inc."
    assert found.not_after - found.not_before == DAY
    assert abs(found.not_before - datetime.now(UTC) - 2 * DAY) < timedelta(minutes=5)


def test_the_hosts_that_it_is_for() -> None:
    hosts = ("Kafka1.example.org", "*.brokers.example.org", "10.0.0.7", "2001:db8::1")
    found = read_certificate(der_of(authority().sign("broker", hosts)))
    assert found.hosts == tuple(host.lower() for host in hosts)
    for host in ("kafka1.example.org", "KAFKA1.example.org", "b3.brokers.example.org", "10.0.0.7", "2001:db8::1"):
        assert found.is_for(host), host
    for host in ("example.org", "brokers.example.org", "a.b3.brokers.example.org", "10.0.0.8", "localhost", ""):
        assert not found.is_for(host), host
    assert read_certificate(der_of(authority().sign("broker"))).hosts == ()


@pytest.mark.parametrize("year", [1955, 1999, 2049, 2050, 2120])
def test_years_are_written_in_two_ways(year: int) -> None:
    now = datetime.now(UTC)
    end = datetime(year, 6, 1, 12, 30, tzinfo=UTC)
    path = authority().sign("old or new", begin=end - now - DAY, end=end - now)
    assert abs(read_certificate(der_of(path)).not_after - end) < timedelta(minutes=5)


@given(st.integers(0, 600), st.binary(min_size=1, max_size=4))
def test_a_damaged_certificate_is_refused_or_read(at: int, damage: bytes) -> None:
    der = bytearray(der_of(server_file()))
    der[at : at + len(damage)] = damage
    for data in (bytes(der), bytes(der[:at])):
        with suppress(DerError):
            read_certificate(data)

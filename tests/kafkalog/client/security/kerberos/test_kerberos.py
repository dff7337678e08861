"""Tests of Kerberos' options, of keytabs, of renewal and of messages; none needs a KDC."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConfigError
from kafkalog.client.security.kerberos import failures
from kafkalog.client.security.kerberos.keytab import KeytabError, parse, principals
from kafkalog.client.security.kerberos.options import KerberosLogin, KerberosOptions, login_of
from tests.support.waiting import wait_until

KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def login(**properties: str) -> KerberosLogin:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    config = ClientConfig.from_dict({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", **named})
    return login_of(config.kerberos, None if config.jaas is None else config.jaas.options)


def test_the_words_of_java() -> None:
    found = login(sasl_jaas_config=f'{KRB5} useKeyTab="True" keyTab="FILE:/etc/a.keytab" principal="a/b@C";')
    assert found[:5] == ("kafka", "a/b@C", "/etc/a.keytab", False, None)
    found = login(sasl_jaas_config=f'{KRB5} useTicketCache=true ticketCache="/tmp/c" serviceName=kfk keyTab="/unused";')
    assert found[:5] == ("kfk", None, None, True, "/tmp/c")
    found = login(sasl_jaas_config=f"{KRB5} useTicketCache=true;", sasl_kerberos_service_name="kfk")
    assert found[:5] == ("kfk", None, None, True, None)


def test_the_words_of_librdkafka() -> None:
    found = login(sasl_kerberos_keytab="/a.keytab", sasl_kerberos_principal="a", sasl_kerberos_service_name="kfk")
    assert found[:5] == ("kfk", "a", "/a.keytab", False, None)
    assert login()[:5] == ("kafka", None, None, True, None)


@pytest.mark.parametrize(
    ("jaas", "match"),
    [
        (f"{KRB5};", 'needs useKeyTab="true" and keyTab, or useTicketCache="true"'),
        (f"{KRB5} useKeyTab=true;", 'useKeyTab="true" needs keyTab='),
        (f"{KRB5} useTicketCache=true serviceName=a;", r"serviceName='a', and sasl\.kerberos\.service\.name='b'"),
        ("org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=b;", "does not fit"),
    ],
)
def test_texts_that_contradict_themselves(jaas: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        login(sasl_jaas_config=jaas, sasl_kerberos_service_name="b")


def entry(*parts: str) -> bytes:
    body = (len(parts) - 1).to_bytes(2, "big") + b"".join(
        len(part).to_bytes(2, "big") + part.encode() for part in parts
    )
    body += bytes(4 + 4 + 1) + b"\x00\x12\x00\x20" + bytes(32)
    return len(body).to_bytes(4, "big") + body


def test_keytabs(tmp_path: Path) -> None:
    hole = (-8).to_bytes(4, "big", signed=True) + bytes(8)
    content = b"\x05\x02" + entry("R", "alice") + hole + entry("R", "alice") + entry("R", "kafka", "host")
    (tmp_path / "k").write_bytes(content)
    assert principals(tmp_path / "k") == ["alice@R", "kafka/host@R"]
    # Space for more entries, which some programs leave at the end.
    assert parse(content + bytes(100)) == ["alice@R", "kafka/host@R"]
    with pytest.raises(KeytabError, match="No such file"):
        principals(tmp_path / "absent")
    with pytest.raises(KeytabError, match="Is a directory"):
        principals(tmp_path)


@given(st.binary(max_size=200), st.integers(0, 120))
def test_damaged_keytabs(junk: bytes, cut: int) -> None:
    content = b"\x05\x02" + entry("R", "alice", "x")
    for damaged in (junk, b"\x05\x02" + junk, content[:cut] + junk, content[:cut]):
        with contextlib.suppress(KeytabError):
            assert all("@" in name for name in parse(damaged))


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (failures.CLOCK_SKEW, r"the clocks of this host .*synchronize them \(said\)"),
        (failures.KDC_SILENT, r"no KDC can be asked: said; check the realm and its kdc in /k\.conf"),
        (failures.SERVER_UNKNOWN, r"does not know the broker as kafka/h: check sasl\.kerberos\.service\.name"),
        (failures.TICKET_EXPIRED, r"the ticket in /c has expired: run kinit"),
        (failures.CACHE_OF_ANOTHER, r"is not that of alice"),
        (1, r"the ticket in /c cannot be used: said"),
    ],
)
@pytest.mark.parametrize("signed", [False, True])
def test_messages(code: int, match: str, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library gives the numbers without a sign; its header has them with one."""
    monkeypatch.setenv("KRB5_CONFIG", "/k.conf")
    given_code = code - (1 << 32) if signed and code >= 1 << 31 else code
    from_cache = KerberosLogin("kafka", "alice", None, True, "/c", "sasl.kerberos.keytab", "sasl.kerberos.principal")
    assert re.search(match, failures.explain(given_code, "said", from_cache, "kafka/h"))


def test_numbers_of_errors() -> None:
    """As `krb5.h` has them."""
    assert failures.CLOCK_SKEW - (1 << 32) == -1765328347
    assert failures.SERVER_UNKNOWN - (1 << 32) == -1765328377
    assert failures.KDC_SILENT - (1 << 32) == -1765328228
    assert failures.REALM_UNKNOWN - (1 << 32) == -1765328230
    assert failures.REALM_UNRESOLVED - (1 << 32) == -1765328164
    assert failures.CACHE_NOT_FOUND - (1 << 32) == -1765328243
    assert failures.CACHE_FILE_NOT_FOUND - (1 << 32) == -1765328189
    assert failures.CACHE_FORMAT - (1 << 32) == -1765328185
    assert failures.NO_DEFAULT_REALM - (1 << 32) == -1765328160
    assert failures.TICKET_EXPIRED - (1 << 32) == -1765328352
    assert failures.PREAUTH_FAILED - (1 << 32) == -1765328360


def test_when_a_ticket_is_renewed() -> None:
    pytest.importorskip("gssapi", reason="the package gssapi is not installed")
    from kafkalog.client.security.kerberos.factory import Renewal

    now = 0.0
    options = KerberosOptions(renew_window=0.8, renew_jitter=0.0, renew_pause=60.0)
    renewal = Renewal(login(), options, clock=lambda: now)
    assert not renewal.is_due(3600)
    assert not renewal.is_due(721)
    assert renewal.is_due(719)
    renewal._last_try = now
    assert not renewal.is_due(700)
    now = 60.0
    assert renewal.is_due(660)


class Library:
    """Stands for the system's library: a cache with a ticket, and contexts that need no KDC unless `gate` is closed."""

    def __init__(self, factory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lifetime = 3600.0
        self.gate = threading.Event()
        self.gate.set()
        self.kinit = threading.Event()
        """Set, `kinit` ends."""
        self.kinits = 0
        self._credentials = factory.library.Credentials
        monkeypatch.setattr(factory.library, "from_cache", self._from_cache)
        monkeypatch.setattr(factory.library, "Context", self._context)
        monkeypatch.setattr(factory.subprocess, "run", self._run)

    def _from_cache(self, login: KerberosLogin) -> Any:
        return self._credentials(None, f"valid for {self.lifetime:g}", self.lifetime)

    def _context(self, login: KerberosLogin, host: str, credentials: Any) -> Any:
        return SimpleNamespace(service=f"kafka/{host}", begin=lambda: self.gate.wait(60) and b"token")

    def _run(self, command: list[str], **more: Any) -> Any:
        self.kinits += 1
        self.kinit.wait(60)
        self.lifetime = 3600.0
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def factory() -> ModuleType:
    pytest.importorskip("gssapi", reason="the package gssapi is not installed")
    from kafkalog.client.security.kerberos import factory

    return factory


@pytest.fixture
def library(factory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    made = Library(factory, monkeypatch)
    yield made
    made.gate.set()
    made.kinit.set()


def test_connections_do_not_wait_for_a_renewal_that_takes_long(
    factory: ModuleType, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "_PATIENCE_S", 0.0)
    make = factory.KerberosFactory(login(), KerberosOptions(renew_pause=0.0))
    make("h", time.monotonic() + 30)
    library.lifetime = 60.0
    for _ in range(3):
        make("h", time.monotonic() + 30)
    wait_until(lambda: library.kinits == 1, "kinit runs")
    library.kinit.set()
    wait_until(lambda: library.lifetime == 3600.0, "the ticket is renewed")
    assert library.kinits == 1


def test_a_ticket_that_is_renewed_at_once_is_used(
    factory: ModuleType, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "_PATIENCE_S", 60.0)
    library.kinit.set()
    make = factory.KerberosFactory(login(), KerberosOptions())
    make("h", time.monotonic() + 120)
    library.lifetime = 60.0
    assert "'valid for 3600'" in make("h", time.monotonic() + 120).identity
    assert library.kinits == 1


def test_attempts_that_were_given_up_leave_one_thread(factory: ModuleType, library: Library) -> None:
    """The one that waits for the library, which has no deadlines."""
    others = set(threading.enumerate())

    def left() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == "kafkalog-kerberos" and each not in others]

    library.gate.clear()
    make = factory.KerberosFactory(login(), KerberosOptions())
    for _ in range(3):
        with pytest.raises(ClientTimeoutError, match=r"the KDC has not answered in time; check kdc in krb5\.conf"):
            make("h", time.monotonic() + 0.05)
    wait_until(lambda: len(left()) <= 1, "the other threads end", 20)
    library.gate.set()
    wait_until(lambda: not left(), "the last thread ends")

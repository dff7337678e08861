"""Test that certificates are read again when they change, and that those that end are told of."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path

import pytest

from broker.config.server import BrokerConfig
from broker.net.tls.listeners import TlsListeners
from broker.runtime import wall_clock_ms
from tests.broker.net.tls.moved_clock import Loop
from tests.broker.security.tls.support import shake_hands
from tests.support.secured.authority import DAY, LOCAL, authority, client_context, server_file

MAILS = "broker.net.tls.listeners"


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.later = timedelta(0)

    def __call__(self) -> int:
        return wall_clock_ms() + int(self.later.total_seconds() * 1000)


class Listeners(TlsListeners):
    """Those of one configuration."""

    def __init__(self, now_ms: Clock, texts: dict[str, str]) -> None:
        loop = Loop()
        self.config = BrokerConfig({"listeners": "SSL://:9093", **texts})
        super().__init__(self.config, loop, loop.time, now_ms)

    def again(self) -> None:
        self.refresh(self.config)


def listeners(now_ms: Clock, **texts: str) -> Listeners:
    return Listeners(now_ms, {key.replace("_", "."): text for key, text in texts.items()})


def shown(found: TlsListeners) -> str:
    """Return the name in the certificate that a new client is shown."""
    client, _ = shake_hands(found.by_name["SSL"].contexts.server, client_context())
    subject = (client.getpeercert() or {})["subject"]
    return str(subject[0][0][1])


def replace_file(path: Path, name: str) -> None:
    """Write a new certificate beside the old one, and put it in its place at once."""
    authority().sign(name, LOCAL, path=path.with_suffix(".new")).rename(path)


def test_a_renewed_certificate_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, MAILS)
    path = authority().sign("first", LOCAL, path=tmp_path / "own.pem")
    found = listeners(Clock(), ssl_keystore_location=str(path))
    before = found.by_name["SSL"].contexts
    found.again()
    assert found.by_name["SSL"].contexts is before, "nothing has changed"
    replace_file(path, "second")
    found.again()
    assert shown(found) == "second"
    assert "listener SSL uses renewed certificates: CN=second" in caplog.text


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    """Kubernetes renews a secret so: ..data is a link to a directory."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        authority().sign(name, LOCAL, path=tmp_path / name / "own.pem")
    data = tmp_path / "..data"
    data.symlink_to("one")
    found = listeners(Clock(), ssl_keystore_location=str(data / "own.pem"))
    assert shown(found) == "one"
    (tmp_path / "new").symlink_to("two")
    os.replace(tmp_path / "new", data)
    found.again()
    assert shown(found) == "two"


def test_files_that_cannot_be_used_change_nothing_and_are_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = authority().sign("first", LOCAL, path=tmp_path / "own.pem")
    found = listeners(Clock(), ssl_keystore_location=str(path))
    path.write_text("half a file")
    for _ in range(3):
        found.again()
    assert shown(found) == "first"
    (line,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert "stay in use" in line.message
    assert str(path) in line.message
    path.unlink()
    found.again()
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2
    replace_file(path, "third")
    found.again()
    assert shown(found) == "third"


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [(-2 * DAY, -DAY, "has expired on"), (2 * DAY, 90 * DAY, "does not count before"), (-DAY, 20 * DAY, "expires on")],
)
def test_certificates_that_do_not_count_for_long_are_told_of_each_day(
    begin: timedelta, end: timedelta, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    found = listeners(clock, ssl_keystore_location=str(authority().sign("server", LOCAL, begin=begin, end=end)))
    found.again()
    assert [told in each.message for each in caplog.records] == [True]
    clock.later = timedelta(hours=25)
    found.again()
    assert len(caplog.records) == 2


def test_a_certificate_that_counts_for_long_is_not(caplog: pytest.LogCaptureFixture) -> None:
    listeners(Clock(), ssl_keystore_location=str(server_file()))
    assert not caplog.records


def test_a_certificate_for_another_host_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = authority().sign("server", LOCAL, path=tmp_path / "own.pem")
    found = listeners(Clock(), ssl_keystore_location=str(own), advertised_listeners="SSL://kafka1.example.org:9093")
    (line,) = (each.message for each in caplog.records)
    assert "is not for kafka1.example.org, which clients connect to" in line
    assert "but for localhost, 127.0.0.1" in line
    authority().sign("server", ("*.example.org",), path=tmp_path / "new").rename(own)
    found.again()
    assert len(caplog.records) == 1


def test_keys_without_effect_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    own = str(server_file())
    listeners(Clock(), ssl_keystore_location=own, ssl_provider="Sun", ssl_keymanager_algorithm="PKIX")
    assert [each.message.split(" ")[0] for each in caplog.records] == ["ssl.provider", "ssl.keymanager.algorithm"]

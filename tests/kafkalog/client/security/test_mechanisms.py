"""Tests of the choice of SASL mechanisms by name, and of what connections share."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.client.config import MECHANISMS, ClientConfig
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.protocol.wire.sasl import Scram


def config(mechanism: str, **more: Any) -> ClientConfig:
    return ClientConfig.from_dict(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": "secret",
            "sasl.oauthbearer.token": "secret-token",
            **more,
        }
    )


# GSSAPI asks the system for a ticket at once; `kerberos/` has its tests.
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "GSSAPI"])
def test_each_name_has_a_mechanism_and_each_authentication_a_new_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("ACCESS_KEY_ID", "AKIA"), ("SECRET_ACCESS_KEY", "secret"), ("DEFAULT_REGION", "r")):
        monkeypatch.setenv(f"AWS_{variable}", value)
    make = make_mechanisms(config(name))
    assert make is not None
    first, second = (make("broker.example", float("inf")) for _ in range(2))
    assert first is not second
    assert first.name == name
    assert "secret" not in repr(first) + first.identity


def test_without_sasl_there_is_no_mechanism() -> None:
    assert make_mechanisms(ClientConfig.from_dict({"security.protocol": "SSL"})) is None


def test_connections_share_salted_passwords() -> None:
    make = make_mechanisms(config("SCRAM-SHA-256"))
    assert make is not None
    first, second = (make(host, float("inf")) for host in ("one", "two"))
    assert isinstance(first, Scram)
    assert isinstance(second, Scram)
    assert first._salted_passwords is second._salted_passwords

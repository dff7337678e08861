"""Tests of references to files and variables in properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.providers import resolve

PACKAGE = "org.apache.kafka.common.config.provider"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "client.properties").write_text("password=of-alice\nuser=alice\n")
    (tmp_path / "key.pem").write_text("-----BEGIN")
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", "of-the-environment")
    return tmp_path


def test_each_provider(secrets: Path) -> None:
    found = resolve(
        {
            "config.providers": "file, dir,own",
            "config.providers.own.class": f"{PACKAGE}.EnvVarConfigProvider",
            "sasl.jaas.config": f'x required username="${{file:{secrets}/client.properties:user}}" '
            f'password="${{file:{secrets}/client.properties:password}}";',
            "ssl.keystore.key": f"${{dir:{secrets}:key.pem}}",
            "ssl.key.password": "${own:KAFKALOG_TEST_SECRET}",
            "client.id": "${vault:other}",
            "retries": 3,
        }
    )
    assert found == {
        "sasl.jaas.config": 'x required username="alice" password="of-alice";',
        "ssl.keystore.key": "-----BEGIN",
        "ssl.key.password": "of-the-environment",
        "client.id": "${vault:other}",
        "retries": 3,
    }


def test_nothing_is_looked_up_unless_asked_for(secrets: Path) -> None:
    properties = {"sasl.password": "${env:KAFKALOG_TEST_SECRET}"}
    assert resolve(properties) == properties


def test_clients_resolve_them(secrets: Path) -> None:
    config = ClientConfig.from_dict(
        {
            "config.providers": "file",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.username": "alice",
            "sasl.password": f"${{file:{secrets}/client.properties:password}}",
        }
    )
    assert config.credentials == ("alice", "of-alice")
    assert config.unknown == {}


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class=: expected one of FileConfigProvider"),
        ({"config.providers": "file", "a": "${file:{}/absent:b}"}, "a: ${file:{}/absent:b}: Cannot read"),
        ({"config.providers": "file", "a": "${file:{}/client.properties:b}"}, "there is no such value"),
        ({"config.providers": "file", "a": "${file:relative:b}"}, "an absolute path"),
        ({"config.providers": "dir", "a": "${dir:{}:absent}"}, "there is no such value"),
        ({"config.providers": "dir", "a": "${dir:{}/key.pem:../key.pem}"}, "the name of a file in the directory"),
        ({"config.providers": "env", "a": "${env:path:NAME}"}, "has no path"),
        (
            {
                "config.providers": "env",
                "config.providers.env.param.allowlist.pattern": "APP_.*",
                "a": "${env:KAFKALOG_TEST_SECRET}",
            },
            "allowlist.pattern does not allow",
        ),
        (
            {
                "config.providers": "file",
                "config.providers.file.param.allowed.paths": "/etc,/run",
                "a": "${file:{}/client.properties:password}",
            },
            "allowed.paths does not allow",
        ),
    ],
)
def test_errors_name_the_reference_and_no_secret(properties: dict[str, Any], says: str, secrets: Path) -> None:
    placed = {key: value.replace("{}", str(secrets)) for key, value in properties.items()}
    with pytest.raises(ConfigError) as caught:
        resolve(placed)
    assert says.replace("{}", str(secrets)) in str(caught.value)
    assert "of-alice" not in str(caught.value)
    assert "of-the-environment" not in str(caught.value)

"""Test that commands that fail show none of the secrets in their properties file."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from kafkalog.cli.main import main

NOWHERE = "127.0.0.1:1"
MARK = "s3cret-of-"
SOON = "default.api.timeout.ms=50\nrequest.timeout.ms=40\nmax.block.ms=50\ndelivery.timeout.ms=60\n"
SASL = "security.protocol=SASL_PLAINTEXT\n"
PLAIN = f"{SASL}sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
PROPERTIES = {
    "a password": "security.protocol=SASL_PLAINTEXT\nsasl.username=u\nsasl.password=s3cret-of-sasl\n",
    "a JAAS text": f'{PLAIN} username="u" password="s3cret-of-jaas";\n',
    "open quotes": f'{PLAIN} username="u" password="s3cret-of-jaas;\n',
    "no quotes": f"{PLAIN} username=u password=s3cret-of-jaas!;\n",
    "a store": "security.protocol=SSL\nssl.keystore.location=/no/such\nssl.keystore.password=s3cret-of-store\n"
    "ssl.key.password=s3cret-of-key\nssl.truststore.location=/no/such\nssl.truststore.password=s3cret-of-trust\n",
    "a PEM key": "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=s3cret-of-pem\n"
    "ssl.keystore.certificate.chain=s3cret-of-chain\n",
    "a client of OAuth": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    f"sasl.oauthbearer.token.endpoint.url=http://{NOWHERE}/token\nsasl.login.retry.backoff.max.ms=1\n"
    "sasl.oauthbearer.client.credentials.client.id=me\nsasl.oauthbearer.client.credentials.client.secret=s3cret-of-me\n",
    "a token": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token=s3cret-of token\n",
}
COMMANDS = {
    "topics": ["topics", "list", "--command-config"],
    "delegation-tokens": ["delegation-tokens", "describe", "--command-config"],
    "produce": ["produce", "--topic", "t", "--producer.config"],
    "consume": ["consume", "--topic", "t", "--timeout-ms", "50", "--consumer.config"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("properties", PROPERTIES)
def test_failures_show_no_secrets(
    command: str,
    properties: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    file = tmp_path / "client.properties"
    file.write_text(SOON + PROPERTIES[properties])
    assert main([*COMMANDS[command], str(file), "--bootstrap-server", NOWHERE]) != 0
    said = capsys.readouterr()
    assert said.err.startswith("kafkalog: ")
    assert "Traceback" not in said.err
    assert MARK not in said.out + said.err + caplog.text
    assert "s3cret" not in said.out + said.err


@pytest.mark.parametrize(
    "words",
    [
        ["produce", "--producer-property"],
        ["produce", "--property"],
        ["consume", "--consumer-property"],
    ],
)
@pytest.mark.parametrize("word", ["s3cret", "=s3cret"])
def test_words_that_are_no_properties_are_not_shown(
    words: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, option = words
    assert main([command, "--topic", "t", "--bootstrap-server", NOWHERE, option, word]) == 2
    said = capsys.readouterr()
    assert said.err == f"kafkalog: {option}: expected KEY=VALUE\n"
    assert "s3cret" not in said.out


@pytest.mark.parametrize(
    ("entity", "added", "message"),
    [
        ("--user", "SCRAM-SHA-256=[iterations=x,password=s3cret]", "--add-config SCRAM-SHA-256: expected "),
        ("--user", "SCRAM-SHA-1=[password=s3cret]", "SCRAM-SHA-1: credentials are for "),
        ("--user", "producer_byte_rate=s3cret", "--add-config producer_byte_rate: a quota is a number"),
        ("--broker", "ssl.key.password=s3cret=", "--add-config, pair 1 of 1: all configs to be added must be "),
        ("--broker", "ssl.key.password=a,s3cret", "--add-config, pair 2 of 2: all configs to be added must be "),
        ("--broker", "ssl.key.password=a,s3cret!=b", "--add-config, pair 2 of 2: invalid character found "),
    ],
)
def test_configs_that_cannot_be_added_are_not_shown(
    entity: str, added: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["configs", "alter", "--bootstrap-server", NOWHERE, entity, "1", "--add-config", added]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"kafkalog: {message}")
    assert "s3cret" not in said.out + said.err

"""Tests of AWS_MSK_IAM: the signature is that of botocore, and credentials come from where AWS's tools find them."""

from __future__ import annotations

import json
import socket
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConfigError, ConnectionFailedError
from kafkalog.client.network.connection import Connection
from kafkalog.client.security.mechanisms import make_mechanisms
from kafkalog.client.security.msk import region_of
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkalog.protocol.wire.errors import AuthenticationFailedError
from kafkalog.protocol.wire.msk_iam import AwsCredentials, MskIam
from tests.kafkalog.client.security.oauth.token_server import Reply, TokenServer
from tests.support.scripted import ScriptedBroker

HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
DEADLINE_S = 60.0
SAFE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)


def config(options: str = "", **more: Any) -> ClientConfig:
    return ClientConfig.from_dict(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{MODULE} {options};",
            **more,
        }
    )


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let botocore find nothing but what a test gives, and ask no instance for a role."""
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def signed_by_botocore(host: str, region: str, credentials: AwsCredentials, at: str) -> dict[str, str]:
    """Presign the same request with botocore, and return its parameters by their names in lower case."""

    class At(SigV4QueryAuth):  # type: ignore[misc]
        def add_auth(self, request: Any) -> None:
            request.context["timestamp"] = at
            self._modify_request_before_signing(request)
            text = self.string_to_sign(request, self.canonical_request(request))
            self._inject_signature_to_request(request, self.signature(text, request))

    own = Credentials(credentials.access_key, credentials.secret_key, credentials.session_token)
    request = AWSRequest(method="GET", url=f"https://{host}/?Action={quote('kafka-cluster:Connect', safe='')}")
    At(own, "kafka-cluster", region, expires=900).add_auth(request)
    return {name.lower(): values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}


@given(SAFE, SAFE, st.none() | SAFE)
def test_the_signature_is_that_of_botocore(access_key: str, secret_key: str, token: str | None) -> None:
    credentials = AwsCredentials(access_key, secret_key, token)
    now = datetime(2026, 11, 25, 20, 30, 5, tzinfo=UTC)
    payload = json.loads(MskIam(HOST, "eu-west-1", credentials, "test/1", now).first())
    assert payload.pop("version") == "2020_10_22"
    assert payload.pop("host") == HOST
    assert payload.pop("user-agent") == "test/1"
    assert payload == signed_by_botocore(HOST, "eu-west-1", credentials, "20261125T203005Z")


def test_no_secret_is_shown() -> None:
    credentials = AwsCredentials("AKIA", "tell-nobody", "tell-nobody-either")
    mechanism = MskIam(HOST, "eu-west-1", credentials, "test/1", datetime.now(UTC))
    assert "tell-nobody" not in repr(credentials) + mechanism.identity + mechanism.first().decode().replace(
        "tell-nobody-either", ""
    )


def test_the_broker_confirms() -> None:
    mechanism = MskIam(HOST, "eu-west-1", AwsCredentials("a", "b"), "test/1", datetime.now(UTC))
    assert mechanism.answer(b'{"version":"2020_10_22","request-id":"1"}') is None  # type: ignore[func-returns-value]
    with pytest.raises(AuthenticationFailedError, match="confirmed nothing"):
        mechanism.answer(b"")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-2.amazonaws.com", "us-east-2"),
        ("b-2.x.y.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("broker.internal.example", None),
    ],
)
def test_the_region_is_in_the_brokers_name(host: str, region: str | None) -> None:
    assert region_of(host) == region


def first_message(settings: ClientConfig, host: str = HOST) -> dict[str, str]:
    make = make_mechanisms(settings)
    assert make is not None
    payload: dict[str, str] = json.loads(make(host, float("inf")).first())
    return payload


def test_credentials_of_the_environment_and_of_a_profile(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationError, match="no AWS credentials: set AWS_ACCESS_KEY_ID"):
        first_message(config())
    (aws / "credentials").write_text("[team]\naws_access_key_id = OFTEAM\naws_secret_access_key = s\n")
    assert first_message(config("awsProfileName=team"))["x-amz-credential"].startswith("OFTEAM/")
    with pytest.raises(ConfigError, match="awsProfileName=other: no such profile"):
        first_message(config("awsProfileName=other"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-session")
    payload = first_message(config())
    assert payload["x-amz-credential"].startswith("OFENV/")
    assert payload["x-amz-credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert payload["x-amz-security-token"] == "of-the-session"
    with pytest.raises(AuthenticationError, match="no AWS region; set AWS_DEFAULT_REGION"):
        first_message(config(), "broker.example")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert "/eu-north-1/" in first_message(config(), "broker.example")["x-amz-credential"]


ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>OFROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>of-the-role</SessionToken>
<Expiration>{ends}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
DENIED = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not for you</Message></Error></ErrorResponse>"""


def test_the_credentials_of_a_role_are_kept_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    answers = iter(
        [
            Reply(200, ROLE.format(ends="2099-01-01T00:00:00Z").encode()),
            Reply(403, DENIED),
            Reply(200, ROLE.format(ends="2020-01-01T00:00:00Z").encode()),
            Reply(200, ROLE.format(ends="2099-01-01T00:00:00Z").encode()),
        ]
    )
    options = 'awsRoleArn="arn:aws:iam::1:role/reader" awsRoleSessionName=mine awsRoleExternalId=ours awsStsRegion=r-1'
    with TokenServer(lambda asked: next(answers)) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        make = make_mechanisms(config(options))
        assert make is not None
        for _ in range(2):
            payload = json.loads(make(HOST, float("inf")).first())
            assert payload["x-amz-credential"].startswith("OFROLE/")
            assert payload["x-amz-security-token"] == "of-the-role"
        assert len(sts.asked) == 1
        form = sts.asked[0].form
        assert (form["Action"], form["RoleArn"]) == ("AssumeRole", "arn:aws:iam::1:role/reader")
        assert (form["RoleSessionName"], form["ExternalId"]) == ("mine", "ours")
        with pytest.raises(AuthenticationError, match=r"awsRoleArn=arn:aws:iam::1:role/reader: .*not for you"):
            first_message(config(options))
        ending = make_mechanisms(config(options))
        assert ending is not None
        for _ in range(2):
            ending(HOST, float("inf"))
        assert len(sts.asked) == 4


def test_a_role_is_assumed_with_the_keys_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    role = 'awsRoleArn="arn:aws:iam::1:role/reader"'
    keys = "awsRoleAccessKeyId=OFOPTIONS awsRoleSecretAccessKey=tell-nobody"
    with TokenServer(lambda asked: Reply(200, ROLE.format(ends="2099-01-01T00:00:00Z").encode())) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        for options in (keys, f"{keys} awsRoleSessionToken=of-the-options"):
            assert first_message(config(f"{role} {options}"))["x-amz-credential"].startswith("OFROLE/")
        first_message(config(role))
        plain, with_token, own = [{name.lower(): text for name, text in asked.headers.items()} for asked in sts.asked]
    for headers in (plain, with_token):
        assert "Credential=OFOPTIONS/" in headers["authorization"]
        assert "tell-nobody" not in str(headers)
    assert "x-amz-security-token" not in plain
    assert with_token["x-amz-security-token"] == "of-the-options"
    assert "Credential=OFENV/" in own["authorization"]


ROLE_OPTIONS = 'awsRoleArn="arn:aws:iam::1:role/reader" awsRoleAccessKeyId=a awsRoleSecretAccessKey=s'


def test_a_service_of_tokens_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller keeps its deadline, and the next one gets what came after it."""
    asked, go = threading.Event(), threading.Event()

    def answer(_: Any) -> Reply:
        asked.set()
        go.wait(DEADLINE_S)
        return Reply(200, ROLE.format(ends="2099-01-01T00:00:00Z").encode())

    with TokenServer(answer) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        make = make_mechanisms(config(ROLE_OPTIONS))
        assert make is not None
        try:
            with pytest.raises(ClientTimeoutError, match="no AWS credentials came in time"):
                make(HOST, 0.0)
            assert asked.wait(DEADLINE_S)
            with pytest.raises(ClientTimeoutError):
                make(HOST, 0.0)
        finally:
            go.set()
        assert json.loads(make(HOST, float("inf")).first())["x-amz-security-token"] == "of-the-role"
        assert len(sts.asked) == 1


def test_a_service_of_tokens_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be back soon, so clients try again; what it refuses, it would refuse again."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(ConnectionFailedError, match="no AWS credentials: Could not connect"):
            first_message(config(ROLE_OPTIONS))
    with TokenServer(lambda asked: Reply(503, b"")) as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        with pytest.raises(ConnectionFailedError, match="awsRoleArn=arn:aws:iam::1:role/reader"):
            first_message(config(ROLE_OPTIONS))


@pytest.mark.parametrize("given", ["awsRoleAccessKeyId=a", "awsRoleSecretAccessKey=tell-nobody"])
def test_half_of_the_keys(given: str) -> None:
    with pytest.raises(ConfigError, match="give both awsRoleAccessKeyId and awsRoleSecretAccessKey") as refused:
        make_mechanisms(config(f"awsRoleArn=r {given}"))
    assert "tell-nobody" not in str(refused.value)


def test_the_class_that_javas_clients_need_is_no_unknown_property() -> None:
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    assert config(**{"sasl.client.callback.handler.class": handler}).unknown == {}


def test_a_broker_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OFENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tell-nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    answers = iter(
        [
            SaslAuthenticateResponse(auth_bytes=b'{"version":"2020_10_22"}'),
            SaslAuthenticateResponse(error_code=58, error_message="Access denied"),
        ]
    )
    sent: list[dict[str, str]] = []

    def authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        sent.append(json.loads(bytes(request.auth_bytes)))
        return next(answers)

    broker = ScriptedBroker(
        {
            SaslHandshakeRequest: lambda request: SaslHandshakeResponse(mechanisms=["AWS_MSK_IAM"]),
            SaslAuthenticateRequest: authenticate,
        }
    )
    with broker:
        Connection("127.0.0.1", broker.port, config()).close()
        with pytest.raises(
            AuthenticationError, match=r"'OFENV' \(AWS_MSK_IAM\): Access denied; check.*policy"
        ) as caught:
            Connection("127.0.0.1", broker.port, config())
    assert "tell-nobody" not in str(caught.value)
    assert sent[0]["host"] == "127.0.0.1"


def test_without_the_package_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigError, match=r"needs the package botocore: pip install 'kafkalog\[msk\]'"):
        make_mechanisms(config())

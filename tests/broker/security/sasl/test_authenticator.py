"""Test the states of an authentication: what each accepts, and how each failure is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.authenticator import MOST_TAGS, Accepted, Refused, Reply, State
from broker.security.sasl.mechanisms.interface import (
    Identity,
    SaslRetriableError,
)
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.primitives import uvarint
from kafkalog.protocol.wire.sasl import Mechanism, Plain, Scram
from tests.broker.security.sasl.exchanges import APIS, NOW_MS, Exchange, offer, same

NAMES = list(offer().mechanisms)
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def plain(user: str = "alice", password: str = "a-secret") -> Plain:
    return Plain(user, password)


def scram(user: str = "alice", password: str = "a-secret") -> Scram:
    return Scram("SHA-256", user, password)


# -- success


@pytest.mark.parametrize("mechanism", [plain(), scram()])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_of_today(mechanism: Mechanism, version: int) -> None:
    exchange = Exchange()
    answer = exchange.ask(VERSIONS, 3)
    assert same(answer, {"error_code": ErrorCode.NONE, "api_keys": APIS})
    mechanism = type(mechanism)("SHA-256", "alice", "a-secret") if isinstance(mechanism, Scram) else mechanism
    answer = exchange.log_in(mechanism, version=version)
    assert same(answer, {"error_code": ErrorCode.NONE, "error_message": None, "session_lifetime_ms": 0})
    assert exchange.accepted.identity == Identity("alice")
    assert exchange.accepted.mechanism == mechanism.name
    assert exchange.accepted.lifetime_ms is None
    assert exchange.authenticator.state is State.ENDED


def test_an_old_client_sends_bare_messages() -> None:
    exchange = Exchange()
    assert exchange.log_in(plain(), framed=False) == b""
    assert exchange.accepted.chunks == (b"\0\0\0\0",)
    exchange = Exchange()
    assert exchange.log_in(scram(), framed=False).startswith(b"v=")
    assert exchange.accepted.identity == Identity("alice")


def test_the_handshake_lists_the_mechanisms_in_both_versions() -> None:
    for version in (0, 1):
        assert same(Exchange().handshake("PLAIN", version), {"error_code": ErrorCode.NONE, "mechanisms": NAMES})


# -- ApiVersions


def test_versions_that_are_not_known_are_answered_with_its_own() -> None:
    exchange = Exchange()
    frame = encode_request(VERSIONS, 3, 7, "test")[4:]
    answer = exchange.frame(frame[:2] + b"\x00\x63" + frame[4:])
    # Version 0 of the response: the error, and one API.
    assert answer == b"\0\0\0\x07" + b"\0\x23" + b"\0\0\0\x01" + b"\0\x12\0\0\0\x04"
    assert same(exchange.ask(ApiVersionsRequest(), 0), {"error_code": ErrorCode.NONE})
    assert exchange.log_in(plain()).error_code == ErrorCode.NONE


def test_a_wrong_name_of_software_may_be_corrected() -> None:
    exchange = Exchange()
    assert exchange.ask(ApiVersionsRequest(), 3).error_code == ErrorCode.INVALID_REQUEST
    assert exchange.ask(VERSIONS, 3).error_code == ErrorCode.NONE


def test_versions_are_asked_for_once() -> None:
    exchange = Exchange()
    exchange.ask(VERSIONS, 3)
    assert exchange.ask(VERSIONS, 3) is None
    assert exchange.refused.is_at_once


# -- failures before the exchange


@pytest.mark.parametrize("message", [MetadataRequest(topics=None), ProduceRequest(acks=1, timeout_ms=1)])
@pytest.mark.parametrize("asks_first", [False, True])
def test_a_request_without_authentication_is_refused_and_not_answered(
    message: MetadataRequest, asks_first: bool
) -> None:
    exchange = Exchange()
    if asks_first:
        exchange.ask(VERSIONS, 3)
    assert exchange.ask(message, 8) is None
    assert "client did not authenticate" in exchange.refused.reason
    assert "security.protocol lacks SASL" in exchange.refused.reason
    assert not exchange.refused.is_at_once


def test_the_body_of_such_a_request_is_not_looked_at() -> None:
    exchange = Exchange()
    frame = encode_request(MetadataRequest(topics=None), 8, 1, "test")[4:]
    exchange.frame(frame[:14] + b"\x7f\xff\xff\xff" * 4)
    assert "sends METADATA" in exchange.refused.reason
    exchange = Exchange()
    exchange.frame(frame[:2] + b"\x7f\x00" + frame[4:])
    assert "sends METADATA" in exchange.refused.reason, "of a version that nobody knows"


def test_a_mechanism_that_is_not_offered() -> None:
    for version in (0, 1):
        exchange = Exchange()
        answer = exchange.handshake("GSSAPI" + "x" * 5000, version)
        assert same(answer, {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": NAMES})
        assert "PLAIN, SCRAM-SHA-256" in exchange.refused.reason
        assert len(exchange.refused.reason) < 300
        assert not exchange.refused.is_at_once


def test_first_bytes_that_are_no_request() -> None:
    for data in (b"", b"\x60\x82", b"GET / HTTP/1.1\r\n", b"\x7f\xff\x00\x00\x00\x00\x00\x00"):
        exchange = Exchange()
        assert exchange.frame(data) == b""
        assert not exchange.refused.is_at_once
        assert "no request of Kafka's protocol" in exchange.refused.reason
    exchange = Exchange()
    exchange.ask(VERSIONS, 3)
    exchange.frame(b"\x60\x82")
    assert exchange.refused.is_at_once


def test_such_bytes_are_of_an_old_client_where_kerberos_is_offered() -> None:
    class Kerberos:
        is_slow = False
        claimed = ""
        identity: Identity | None = None

        def answer(self, message: bytes) -> bytes | None:
            self.identity = Identity("alice") if message == b"done" else None
            return None if self.identity else message[::-1]

    exchange = Exchange(offer(GSSAPI=Kerberos))
    assert exchange.frame(b"\x60\x82\x01") == b"\x01\x82\x60"
    assert exchange.frame(b"done") == b""
    assert exchange.accepted.identity == Identity("alice")
    assert exchange.accepted.chunks == ()


def test_a_handshake_of_another_version() -> None:
    exchange = Exchange()
    frame = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test")[4:]
    assert exchange.frame(frame[:2] + b"\x00\x02" + frame[4:]) == b""
    assert exchange.refused.is_at_once


@pytest.mark.parametrize("of_mechanism", [False, True])
def test_a_request_with_many_tags_is_refused(of_mechanism: bool) -> None:
    """Half a megabyte of them takes 0.1 s, and anybody may send it."""
    exchange = Exchange()
    message, version = (SaslAuthenticateRequest(auth_bytes=b""), 2) if of_mechanism else (VERSIONS, 3)
    if of_mechanism:
        exchange.handshake("PLAIN", 1)
    frame = encode_request(message, version, 7, "test")[4:]
    assert frame[-1] == 0, "it ends with the number of its tagged fields"
    assert exchange.frame(frame[:-1] + uvarint(100_000) + b"\x63\0" * 100_000) == b""
    assert "cannot be read" in exchange.refused.reason
    assert exchange.refused.is_at_once


def test_a_header_with_many_tags_is_refused() -> None:
    frame = b"\0\x12\0\x03\0\0\0\x01\xff\xff" + bytes([MOST_TAGS + 1]) + b"\0\0" * 200
    exchange = Exchange()
    exchange.frame(frame)
    assert isinstance(exchange.step, Refused)


# -- failures in the exchange


@pytest.mark.parametrize(
    "mechanism", [plain("alice", "wrong"), plain("carol"), scram("alice", "wrong"), scram("carol")]
)
def test_wrong_credentials(mechanism: Mechanism) -> None:
    exchange = Exchange()
    answer = exchange.log_in(type(mechanism)(*fresh(mechanism)))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message in (
        "Authentication failed: Invalid username or password",
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
    )
    assert not exchange.refused.is_at_once
    assert mechanism.identity.removeprefix("user ") in exchange.refused.reason
    exchange = Exchange()
    assert exchange.log_in(type(mechanism)(*fresh(mechanism)), framed=False) == b""
    assert not exchange.refused.is_at_once


def fresh(mechanism: Mechanism) -> tuple[str, ...]:
    user = mechanism.identity.split("'")[1]
    password = "a-secret" if user == "carol" else "wrong"
    return (user, password) if mechanism.name == "PLAIN" else ("SHA-256", user, password)


def test_another_request_during_the_exchange() -> None:
    exchange = Exchange()
    exchange.handshake("PLAIN")
    assert exchange.frame(encode_request(MetadataRequest(topics=None), 8, 1, "test")[4:]) == b"bad"
    assert "METADATA during SASL authentication" in exchange.refused.reason
    assert not exchange.refused.is_at_once
    exchange = Exchange()
    exchange.handshake("PLAIN")
    frame = encode_request(SaslAuthenticateRequest(auth_bytes=b""), 2, 1, "test")[4:]
    assert exchange.frame(frame[:2] + b"\x00\x09" + frame[4:]) == b""
    assert exchange.refused.is_at_once


def test_nobody_may_have_the_name_of_everybody() -> None:
    exchange = Exchange()
    assert exchange.log_in(plain("*", "star")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "stands for everybody" in exchange.refused.reason


def test_a_failure_that_may_pass_is_not_answered() -> None:
    class Busy:
        is_slow = False
        claimed = ""
        identity: Identity | None = None

        def answer(self, message: bytes) -> bytes:
            raise SaslRetriableError("the clocks differ")

    exchange = Exchange(offer(BUSY=Busy))
    exchange.handshake("BUSY")
    assert exchange.authenticate(b"x") is None
    assert exchange.refused.is_at_once


def test_nothing_follows_the_end() -> None:
    exchange = Exchange()
    exchange.log_in(plain())
    exchange.frame(b"more")
    assert exchange.refused.is_at_once


# -- sessions that end (KIP-368)


@pytest.mark.parametrize(
    ("mechanism", "max_reauth_ms", "lifetime_ms"),
    [("PLAIN", 0, None), ("PLAIN", 700, 700), ("EXPIRING", 0, 5000), ("EXPIRING", 700, 700), ("EXPIRING", 9000, 5000)],
)
def test_the_lifetime_of_a_session(mechanism: str, max_reauth_ms: int, lifetime_ms: int | None) -> None:
    exchange = Exchange(offer(max_reauth_ms))
    exchange.handshake(mechanism)
    answer = exchange.authenticate(b"\0alice\0a-secret", 1)
    assert answer.session_lifetime_ms == (lifetime_ms or 0)
    assert exchange.accepted.lifetime_ms == lifetime_ms


def test_a_credential_that_has_expired_meanwhile() -> None:
    exchange = Exchange()
    exchange.handshake("EXPIRING")
    frame = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0a-secret"), 1, 1, "test")[4:]
    step = exchange.authenticator.received(frame)
    answer = step.mechanism.answer(step.message)  # type: ignore[union-attr]
    accepted = exchange.authenticator.evaluated(answer, NOW_MS + 6000)
    assert isinstance(accepted, Accepted)
    assert accepted.lifetime_ms == 0


def test_only_the_last_response_has_the_lifetime() -> None:
    exchange = Exchange(offer(700))
    exchange.handshake("SCRAM-SHA-256")
    client = scram()
    first = exchange.authenticate(client.first())
    assert first.session_lifetime_ms == 0
    last = client.answer(first.auth_bytes)
    assert last is not None
    assert exchange.authenticate(last).session_lifetime_ms == 700


def test_a_session_is_renewed() -> None:
    exchange = Exchange(previous=("PLAIN", "alice"))
    assert exchange.log_in(plain()).error_code == ErrorCode.NONE
    assert exchange.accepted.identity == Identity("alice")


def test_a_renewal_keeps_the_principal() -> None:
    exchange = Exchange(previous=("PLAIN", "bob"))
    answer = exchange.log_in(plain())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.bob: User.alice"


def test_a_renewal_keeps_the_mechanism() -> None:
    exchange = Exchange(previous=("SCRAM-SHA-256", "alice"))
    assert exchange.handshake("PLAIN").error_code == ErrorCode.NONE
    answer = exchange.authenticate(b"\0alice\0a-secret")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"
    )


def test_a_renewal_that_fails_says_so() -> None:
    exchange = Exchange(previous=("SCRAM-SHA-256", "alice"))
    answer = exchange.log_in(scram("alice", "wrong"))
    assert "during re-authentication due to" in answer.error_message


@pytest.mark.parametrize("message", [VERSIONS, MetadataRequest(topics=None)])
def test_a_renewal_begins_with_a_handshake(message: ApiVersionsRequest) -> None:
    exchange = Exchange(previous=("PLAIN", "alice"))
    assert exchange.ask(message, 3) is None
    assert isinstance(exchange.step, Refused)


# -- anything


FRAMES = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda key, version, rest: key.to_bytes(2, "big") + version.to_bytes(2, "big") + rest,
        st.sampled_from([0, 3, 17, 18, 36, 100]),
        st.integers(0, 5),
        st.binary(max_size=200),
    ),
    st.sampled_from(
        [
            encode_request(VERSIONS, 3, 1, "test")[4:],
            encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "test")[4:],
            encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0, 1, "test")[4:],
            encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2, 1, "test")[4:],
            encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=c"), 1, 1, "test")[4:],
        ]
    ),
)


@given(st.lists(FRAMES, max_size=8), st.booleans())
def test_any_frames_end_in_a_refusal_or_wait_for_more(frames: list[bytes], renews: bool) -> None:
    exchange = Exchange(previous=("PLAIN", "alice") if renews else None)
    for frame in frames:
        exchange.frame(frame)
        assert not isinstance(exchange.step, Accepted), "nobody has sent the password"
        if isinstance(exchange.step, Refused):
            assert exchange.authenticator.state is State.ENDED
            return
        assert isinstance(exchange.step, Reply)

"""Tests of the first exchange of a connection: versions, SASL, and what each state allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalog.protocol.errors import ClusterAuthorizationFailedError, ErrorCode, UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kafkalog.protocol.wire.core import Answer, Handshake, State, Wire
from kafkalog.protocol.wire.errors import (
    AuthenticationFailedError,
    ConnectionEndedError,
    LocalProtocolError,
    NegotiationFailedError,
    RemoteProtocolError,
)
from kafkalog.protocol.wire.sasl import Plain
from tests.kafkalog.protocol.wire.support import EVERYTHING, answer, asked, feed, make_wire, ready_wire, state_of


def test_a_connection_begins_with_api_versions_and_takes_the_newest_common_version() -> None:
    wire = make_wire()
    request, version, correlation_id = asked(first := wire.begin())
    assert isinstance(request, ApiVersionsRequest)
    assert (version, correlation_id) == (ApiVersionsRequest.max_version, 0)
    assert request.client_software_name == "kafkalog"
    assert state_of(wire) is State.NEGOTIATING
    assert feed(wire, answer(first, EVERYTHING)) == [Handshake()]
    assert wire.proceed() == []
    assert state_of(wire) is State.READY
    assert wire.version_of(MetadataRequest) == MetadataRequest.max_version
    assert wire.version_of(MetadataRequest, 5) == 5
    with pytest.raises(UnsupportedVersionError, match=r"^UNSUPPORTED_VERSION: peer:1 supports METADATA from"):
        wire.version_of(MetadataRequest, 5, min_version=6)


@pytest.mark.parametrize(("announced", "next_version"), [(None, 0), (3, 3), (0, 0), (99, 3), (-7, 0)])
def test_a_peer_that_lacks_the_version_is_asked_in_an_older_one(announced: int | None, next_version: int) -> None:
    """KIP-511: UNSUPPORTED_VERSION comes in version 0, perhaps with the versions of ApiVersions itself."""
    ranges = [] if announced is None else [ApiVersion(api_key=18, min_version=0, max_version=announced)]
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges)
    wire = make_wire()
    feed(wire, answer(wire.begin(), refusal))
    second = wire.proceed()
    _, version, correlation_id = asked(second)
    assert (version, correlation_id) == (min(next_version, ApiVersionsRequest.max_version - 1), 1)
    feed(wire, answer(second, EVERYTHING))
    assert wire.proceed() == []


def test_a_peer_that_refuses_every_version_ends_the_connection() -> None:
    wire = make_wire()
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    feed(wire, answer(wire.begin(), refusal))
    feed(wire, answer(wire.proceed(), refusal))
    with pytest.raises(NegotiationFailedError, match="peer:1 does not say what it speaks"):
        wire.proceed()
    assert wire.state is State.CLOSED


def test_an_error_instead_of_versions_is_reported() -> None:
    wire = make_wire()
    feed(wire, answer(wire.begin(), ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
    with pytest.raises(NegotiationFailedError) as caught:
        wire.proceed()
    assert isinstance(caught.value.reported, ClusterAuthorizationFailedError)


class Rounds:
    """A mechanism of several rounds, each of which asks for the next."""

    name = "ROUNDS"
    identity = "user 'bob'"
    remedy = "check the test"

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.seen: list[bytes] = []

    def first(self) -> bytes:
        return b"0"

    def answer(self, challenge: bytes) -> bytes | None:
        self.seen.append(challenge)
        return None if len(self.seen) == self.rounds else str(len(self.seen)).encode()


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_sasl_takes_as_many_rounds_as_the_mechanism_wants(rounds: int) -> None:
    mechanism = Rounds(rounds)
    wire = make_wire(mechanism)
    feed(wire, answer(wire.begin(), EVERYTHING))
    chunks = wire.proceed()
    handshake, version, _ = asked(chunks)
    assert (handshake.mechanism, version) == ("ROUNDS", 1)
    assert state_of(wire) is State.AUTHENTICATING
    feed(wire, answer(chunks, SaslHandshakeResponse(mechanisms=["ROUNDS"])))
    chunks = wire.proceed()
    for number in range(rounds):
        assert asked(chunks)[0].auth_bytes == str(number).encode()
        assert state_of(wire) is State.AUTHENTICATING
        response = SaslAuthenticateResponse(auth_bytes=b"%d!" % number, session_lifetime_ms=1000 * number)
        assert feed(wire, answer(chunks, response)) == [Handshake()]
        chunks = wire.proceed()
    assert chunks == []
    assert state_of(wire) is State.READY
    assert mechanism.seen == [b"%d!" % number for number in range(rounds)]
    assert wire.session_lifetime_ms == 1000 * (rounds - 1)


def test_a_mechanism_that_is_not_taken_and_a_password_that_is_wrong() -> None:
    for refusals, match in (
        ([SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI"])], "does not take.*PLAIN; it offers: GSSAPI"),
        (
            [SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="wrong")],
            r"peer:1 refuses user 'alice' \(PLAIN\): wrong",
        ),
    ):
        wire = make_wire(Plain("alice", "secret"))
        feed(wire, answer(wire.begin(), EVERYTHING))
        for response in refusals:
            feed(wire, answer(wire.proceed(), response))
        with pytest.raises(AuthenticationFailedError, match=match) as caught:
            wire.proceed()
        assert "secret" not in str(caught.value)
        assert wire.state is State.CLOSED


def test_a_peer_without_sasl_ends_the_handshake() -> None:
    wire = make_wire(Plain("alice", "secret"))
    feed(wire, answer(wire.begin(), ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=9)])))
    with pytest.raises(AuthenticationFailedError, match=r"takes no SASL on this port.*security\.protocol"):
        wire.proceed()
    assert wire.state is State.CLOSED
    # Apache Kafka's listeners without SASL know the request, and refuse it.
    wire = make_wire(Plain("alice", "secret"))
    feed(wire, answer(wire.begin(), EVERYTHING))
    feed(wire, answer(wire.proceed(), SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)))
    with pytest.raises(AuthenticationFailedError, match="takes no SASL on this port"):
        wire.proceed()


def test_a_broker_before_kafka_1_0_is_named_as_such() -> None:
    """It has another exchange for SASL. Nobody shall turn security off for it."""
    wire = make_wire(Plain("alice", "secret"))
    keys = [ApiVersion(api_key=3, max_version=4), ApiVersion(api_key=17), ApiVersion(api_key=18, max_version=1)]
    feed(wire, answer(wire.begin(), ApiVersionsResponse(api_keys=keys)))
    with pytest.raises(AuthenticationFailedError, match=r"peer:1 is older than Kafka 1\.0, .*SASL.* 1\.0") as caught:
        wire.proceed()
    assert "security.protocol" not in str(caught.value)
    assert wire.state is State.CLOSED


def authenticated_wire() -> Wire:
    wire = make_wire(Plain("alice", "secret"))
    feed(wire, answer(wire.begin(), EVERYTHING))
    feed(wire, answer(wire.proceed(), SaslHandshakeResponse(mechanisms=["PLAIN"])))
    feed(wire, answer(wire.proceed(), SaslAuthenticateResponse(session_lifetime_ms=1000)))
    assert wire.proceed() == []
    return wire


def test_a_client_authenticates_again_while_requests_are_in_flight() -> None:
    """Their responses come first, and are no steps of the handshake (KIP-368)."""
    wire = authenticated_wire()
    before = [wire.send(HeartbeatRequest(), 3), wire.send(MetadataRequest(topics=[]), 9)]
    handshake = wire.reauthenticate(Plain("alice", "changed"))
    assert (asked(handshake)[0].mechanism, asked(handshake)[1]) == ("PLAIN", 1)
    assert state_of(wire) is State.AUTHENTICATING
    [first] = feed(wire, answer(before[0], HeartbeatResponse(error_code=7)))
    [second] = feed(wire, answer(before[1], MetadataResponse(cluster_id="c")))
    assert isinstance(first, Answer)
    assert first.message.error_code == 7
    assert isinstance(second, Answer)
    assert second.message.cluster_id == "c"
    assert feed(wire, answer(handshake, SaslHandshakeResponse(mechanisms=["PLAIN"]))) == [Handshake()]
    token = wire.proceed()
    assert asked(token)[0].auth_bytes == b"\0alice\0changed"
    feed(wire, answer(token, SaslAuthenticateResponse(session_lifetime_ms=2000)))
    assert wire.proceed() == []
    assert state_of(wire) is State.READY
    assert wire.session_lifetime_ms == 2000
    [third] = feed(wire, answer(wire.send(HeartbeatRequest(), 3), HeartbeatResponse(error_code=8)))
    assert isinstance(third, Answer)


def test_a_peer_that_lets_nobody_authenticate_again() -> None:
    wire = authenticated_wire()
    refusal = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    feed(wire, answer(wire.reauthenticate(Plain("alice", "secret")), refusal))
    with pytest.raises(ConnectionEndedError, match="authenticate again"):
        wire.proceed()
    assert state_of(wire) is State.CLOSED


def call_space_and_received(wire: Wire) -> None:
    wire.space()
    wire.received(1)


CALLS: dict[str, Callable[[Wire], object]] = {
    "begin": lambda wire: wire.begin(),
    "proceed": lambda wire: wire.proceed(),
    "send": lambda wire: wire.send(MetadataRequest(), 9),
    "reauthenticate": lambda wire: wire.reauthenticate(Plain("alice", "secret")),
    "received": call_space_and_received,
}


def in_state(state: State) -> Wire:
    if state is State.READY:
        return ready_wire()
    wire = make_wire(Plain("alice", "secret"))
    if state is not State.NEW:
        first = wire.begin()
        if state is State.AUTHENTICATING:
            feed(wire, answer(first, EVERYTHING))
            wire.proceed()
        if state is State.CLOSED:
            wire.close()
    return wire


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        (State.NEW, {"begin"}),
        (State.NEGOTIATING, {"received"}),
        (State.AUTHENTICATING, {"received"}),
        (State.READY, {"send", "reauthenticate"}),
        (State.CLOSED, set()),
    ],
)
def test_the_table_of_states_holds(state: State, allowed: set[str]) -> None:
    """`proceed` is allowed after a handshake's event alone, and `received` in READY where a response is due."""
    for name, call in CALLS.items():
        wire = in_state(state)
        assert wire.state is state
        in_flight = wire.in_flight
        if name in allowed:
            call(wire)
            continue
        with pytest.raises(RemoteProtocolError if (state, name) == (State.READY, "received") else LocalProtocolError):
            call(wire)
        if (state, name) != (State.READY, "received"):
            assert (wire.state, wire.in_flight) == (state, in_flight)

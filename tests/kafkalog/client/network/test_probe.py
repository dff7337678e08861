"""Test what the client makes of a listener's answer to its questions, whatever the listener is."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kafkalog.client.network.probe import _CORRELATION_ID, sasl_mechanisms
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.scripted import ScriptedBroker, frame

PLAIN = struct.pack(">h", 5) + b"PLAIN"


def told(count: int, mechanisms: bytes) -> Sequence[str] | None:
    """Return the mechanisms that are found in an answer that says to have `count` of them."""
    head = struct.pack(">ihi", _CORRELATION_ID, ErrorCode.UNSUPPORTED_SASL_MECHANISM, count)
    with ScriptedBroker({SaslHandshakeRequest: lambda request: frame(head + mechanisms)}) as broker:
        return sasl_mechanisms("127.0.0.1", broker.port, None)


def test_the_mechanisms_of_an_answer() -> None:
    assert told(2, PLAIN + struct.pack(">h", 6) + b"GSSAPI") == ["PLAIN", "GSSAPI"]
    assert told(0, b"") == []


@pytest.mark.parametrize("size", [-1, -2, -100, 6, 32767])
@pytest.mark.parametrize("before", [b"", PLAIN], ids=["first", "second"])
def test_a_name_that_is_not_in_the_answer_ends_the_question(size: int, before: bytes) -> None:
    """A size of -2 would put the next name at the same place, as often as the answer says."""
    assert told(2 if before else 1, before + struct.pack(">h", size) + b"PLAIN") is None


def test_fewer_names_than_the_answer_says_are_no_answer() -> None:
    assert told(0x7FFFFFFF, PLAIN * 3) is None

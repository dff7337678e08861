"""User data of Kafka's sticky assignors: what a member had, in the `user_data` of its subscription (see `consumer`).

`sticky` (KIP-54) writes a structure without a version in front of it. There are two, and a reader tries the newer one
first:

========================  ======================================================  =====
field                     type                                                    since
========================  ======================================================  =====
previous assignment       array of (topic string, partitions array of int32)      0
generation                int32: in which the member got it                       1
========================  ======================================================  =====

`cooperative-sticky` (KIP-429) writes an int32, the generation: what a member owns stands in its subscription. Bytes
after it are passed over.

Source: Kafka's `StickyAssignor` and `CooperativeStickyAssignor`.
"""

from __future__ import annotations

from struct import Struct as Layout

from kafkalog.protocol.codec import decode_message, encode_message
from kafkalog.protocol.embedded.consumer import NO_GENERATION, TopicPartitions
from kafkalog.protocol.primitives import ProtocolError
from kafkalog.protocol.schema import Message, array, int32

NEWEST = 1
_GENERATION = Layout(">i")


class StickyUserData(Message, versions="0-1"):
    """A member's previous assignment; the generation is `NO_GENERATION` in version 0, which has no such field."""

    previous_assignment: list[TopicPartitions] = array(TopicPartitions, "0+")
    generation: int = int32("1+", default=NO_GENERATION, ignorable=True)


def encode_sticky(data: StickyUserData, version: int = NEWEST) -> bytes:
    """Encode the user data of `sticky`."""
    return encode_message(data, version)


def decode_sticky(data: bytes) -> tuple[StickyUserData, int]:
    """Decode the user data of `sticky`; the data, and the version in which it could be read.

    Raises:
        ProtocolError: It can be read in no version.
    """
    try:
        return decode_message(StickyUserData, 1, data)[0], 1
    except ProtocolError:
        return decode_message(StickyUserData, 0, data)[0], 0


def encode_generation(generation: int) -> bytes:
    """Encode the user data of `cooperative-sticky`."""
    return _GENERATION.pack(generation)


def decode_generation(data: bytes) -> int:
    """Decode the user data of `cooperative-sticky`.

    Raises:
        ProtocolError: It is too short for a generation.
    """
    if len(data) < _GENERATION.size:
        raise ProtocolError(f"a generation has {_GENERATION.size} bytes, and there are {len(data)}")
    generation: int = _GENERATION.unpack_from(data)[0]
    return generation

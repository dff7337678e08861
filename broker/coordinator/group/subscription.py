"""What the coordinator understands of the consumer's embedded protocol: which topics a member subscribes to.

A subscription is ``version int16, topics [string], user data bytes, …``; later versions only add to it, so that the
beginning says what all of them say. Source: Kafka's ``ConsumerProtocol``, ``ConsumerProtocolSubscription.json``.
"""

from __future__ import annotations

from kafkalog.protocol.codec import ProtocolError, decode_message
from kafkalog.protocol.schema import STRING, Message, array

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


class _Topics(Message, versions="0"):
    topics: list[str] = array(STRING, "0")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, or None when it is none."""
    if len(metadata) < _VERSION_BYTES or metadata[0] & 0x80:
        return None
    try:
        return frozenset(decode_message(_Topics, 0, metadata, _VERSION_BYTES)[0].topics)
    except ProtocolError:
        return None

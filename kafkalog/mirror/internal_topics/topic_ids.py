"""The headers that say which topic, and which leader epoch, a record of an internal topic refers to. Pure.

A topic that is deleted and created again under its name has another id (KIP-516). What was stored of the old one says
nothing about the new one. The header `kafkalog.topic.id` has the 16 bytes of the id: of the source's topic in positions
and offset syncs, of the target's in checkpoints and group marks. MirrorMaker 2 and Kafka Connect ignore headers here,
and write none.

The leader epoch of the last record before a position tells whether the source still has that record (KIP-320). The
header `kafkalog.leader.epoch` of a position has it, as an int32.
"""

from __future__ import annotations

from struct import Struct
from uuid import UUID

from kafkalog.mirror.internal_topics.runs import Headers
from kafkalog.protocol.schema import ZERO_UUID

TOPIC_ID = "kafkalog.topic.id"
LEADER_EPOCH = "kafkalog.leader.epoch"
NO_EPOCH = -1
_EPOCH = Struct(">i")


def id_headers(topic_id: UUID) -> list[tuple[str, bytes]]:
    """Make the header; none for a zero id, as the topics of Kafka before 2.8 have it."""
    return [] if topic_id == ZERO_UUID else [(TOPIC_ID, topic_id.bytes)]


def id_of(headers: Headers) -> UUID:
    """Return the id in the header; zero where there is none, or where it has another length."""
    data = _header(headers, TOPIC_ID)
    return UUID(bytes=data) if data is not None and len(data) == len(ZERO_UUID.bytes) else ZERO_UUID


def epoch_headers(leader_epoch: int) -> list[tuple[str, bytes]]:
    """Make the header; none for an unknown epoch, as the message formats v0 and v1 have it."""
    return [] if leader_epoch == NO_EPOCH else [(LEADER_EPOCH, _EPOCH.pack(leader_epoch))]


def epoch_of(headers: Headers) -> int:
    """Return the leader epoch in the header; -1 where there is none, or where it has another length."""
    data = _header(headers, LEADER_EPOCH)
    if data is None or len(data) != _EPOCH.size:
        return NO_EPOCH
    epoch: int = _EPOCH.unpack(data)[0]
    return epoch


def _header(headers: Headers, name: str) -> bytes | None:
    return next((value for key, value in headers if key == name), None)


def are_other_topics(one: UUID | None, other: UUID | None) -> bool:
    """Tell whether two ids are known and differ; a zero id is not known."""
    return one not in (None, ZERO_UUID, other) and other not in (None, ZERO_UUID)

"""The header that tells of which topic of the source a position or an offset sync is. Pure.

A topic that is deleted and created again under its name has another id (KIP-516). Positions and syncs of the old one
say nothing about the new one. The header `kafkalog.topic.id` has the 16 bytes of the id. MirrorMaker 2 and Kafka
Connect ignore headers here, and write none.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.mirror.internal_topics.runs import Headers
from kafkalog.protocol.schema import ZERO_UUID

TOPIC_ID = "kafkalog.topic.id"


def id_headers(topic_id: UUID) -> list[tuple[str, bytes]]:
    """Make the header; none for a zero id, as the topics of Kafka before 2.8 have it."""
    return [] if topic_id == ZERO_UUID else [(TOPIC_ID, topic_id.bytes)]


def id_of(headers: Headers) -> UUID:
    """Return the id in the header; zero where there is none, or where it has another length."""
    data = next((value for key, value in headers if key == TOPIC_ID), None)
    return UUID(bytes=data) if data is not None and len(data) == len(ZERO_UUID.bytes) else ZERO_UUID


def are_other_topics(one: UUID | None, other: UUID | None) -> bool:
    """Tell whether two ids are known and differ; a zero id is not known."""
    return one not in (None, ZERO_UUID, other) and other not in (None, ZERO_UUID)

"""The incremental fetch sessions of a consumer, one with each broker (KIP-227).

In a session a request names only the partitions whose positions have changed, and a response only those that have
records or news. A consumer that has caught up with many partitions sends and receives little then. Brokers before
Kafka 1.1, and those whose cache of sessions is full, get all partitions each time.

A session is not ended when the consumer closes. A broker that needs its place drops it after two minutes
(`min.incremental.fetch.session.eviction.ms`), as it does with those of crashed clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kafkalog.client.consumer.fetcher.asked_partition import AskedPartition
from kafkalog.client.consumer.fetcher.fetch_position import NO_EPOCH
from kafkalog.client.fetch.fetch_request import MAX_VERSION
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkalog.protocol.schema import ZERO_UUID
from kafkalog.protocol.wire.fetch_session import FetchSessionHandler, Wanted

_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
_NO_LOG_START = -1

Asked = Mapping[TopicPartition, AskedPartition]


def newest_version(asked: Asked) -> int | None:
    """Return the newest version of Fetch that can name these topics; None for the newest one of both sides."""
    return None if all(each.topic_id != ZERO_UUID for each in asked.values()) else MAX_VERSION


class FetchSessions:
    """The sessions of one fetcher, by the broker's id. Only its thread uses them."""

    def __init__(self) -> None:
        self._handlers: dict[int, FetchSessionHandler] = {}

    def build(self, node_id: int, asked: Asked, version: int, max_bytes: int) -> FetchRequest:
        """Make a request for exactly these partitions. The caller adds what is about all of them.

        Args:
            node_id: the broker.
            asked: the partitions.
            version: the version in which the request is sent.
            max_bytes: the most bytes of each partition.
        """
        handler = self._handlers.setdefault(node_id, FetchSessionHandler())
        for key in [key for key in handler.wanted if key not in asked]:
            handler.want(key, None)
        for tp, each in asked.items():
            wanted = Wanted(each.topic_id, each.position.offset, _NO_LOG_START, max_bytes, each.leader_epoch, NO_EPOCH)
            handler.want(tp, wanted)
        return handler.build(version)

    def answered(self, node_id: int, response: FetchResponse) -> bool:
        """Take the response of a broker; return False if it has lost the session, so that all is asked for again."""
        handler = self._handlers[node_id]
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.NONE:
            handler.answered(response.session_id)
            return True
        is_lost = code in _LOST and not handler.is_new
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            handler.forget()
        else:
            handler.begin_again()
        return not is_lost

    def unanswered(self, node_id: int) -> None:
        """Note that a request was not sent, or not answered: the broker may know of it or not."""
        self._handlers[node_id].begin_again()


def names_of(asked: Asked, *, with_others: bool) -> dict[UUID, str]:
    """Return the topics' names by their ids; those of topics that were created again only `with_others`."""
    return {each.topic_id: tp.topic for tp, each in asked.items() if with_others or not each.is_other}

"""The answer to a Produce request: the errors of its partitions, and the time that quotas delay it."""

from __future__ import annotations

import logging

from broker.api.context import Request
from broker.api.errors import error_code, error_message
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

logger = logging.getLogger(__name__)

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
EXPECTED_ERRORS = TOO_LARGE | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}  # fmt: skip
"""Errors that correct producers meet now and then. As in Kafka, they do not count as failures."""


def reply(request: Request, response: ProduceResponse) -> None:
    """Answer at once; the throttle time of the client's quotas begins after the answer."""
    request.reply(response, wait_ms(request))


def wait_ms(request: Request) -> int:
    """Return the throttle time of the client's quotas, in milliseconds."""
    quotas = request.broker.quotas
    is_limited = quotas.produce.limited or quotas.request.limited
    return request.quota_wait_ms((quotas.produce, request.nbytes)) if is_limited else 0


def fill_error(request: Request, topic: str, result: PartitionProduceResponse, error: Exception, size: int) -> None:
    """Put an error into the result of a partition, and count it.

    Args:
        request: the request.
        topic: the partition's topic.
        result: the partition's entry in the response.
        error: why its records were not appended.
        size: the size of the records, in bytes.
    """
    index = result.index
    code = error_code(error)
    counters = request.broker.replicas.counters.known(topic)
    if code not in EXPECTED_ERRORS:
        counters.failed_produce += 1
    elif code in TOO_LARGE and size:
        counters.bytes_rejected += size
    logger.debug("produce to %s-%d from client %s failed: %s %s", topic, index, request.client_id, code.name, error)
    result.error_code = code
    result.error_message = error_message(error) if request.version >= 8 else None

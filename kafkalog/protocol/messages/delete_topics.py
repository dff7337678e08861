"""DeleteTopics (key 20, versions 0 to 6): delete topics; the controller does it.

Version 4 is flexible, 5 tells why, 6 can name topics by id.

Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, INVALID_REQUEST,
NOT_CONTROLLER, REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import STRING, Request, Response, Struct, array, int16, int32, string, uuid


class DeletableTopicResult(Struct):
    name: str | None = string("0+", nullable="6+")  # null where an id was given that no topic has
    topic_id: UUID = uuid("6+", ignorable=True)  # zero where the topic goes by its name
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)  # how long the request was held back for a quota
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)  # null to delete by id
    topic_id: UUID = uuid("6+")  # zero where the topic goes by its name


class DeleteTopicsRequest(Request, key=20, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(STRING, "0-5", ignorable=True)
    timeout_ms: int = int32("0+")  # REQUEST_TIMED_OUT after that

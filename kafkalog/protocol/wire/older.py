"""Requests for brokers of older releases: fields that their versions lack are left out where less is asked for then.

Callers fill a request in as its newest version wants it. A value that an older version lacks is an error of the
encoder, unless the version has another field for it, or has always behaved as the value asks, or does without.

Source: the builders of Kafka's requests, such as `OffsetFetchRequest.Builder` and `DeleteTopicsRequest.Builder`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.create_topics import CreateTopicsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalog.protocol.schema import Request

ANY_PATTERN, LITERAL_PATTERN = 1, 3
"""Kafka's `PatternType`. Before Kafka 2.0 all patterns were literal."""
BROKERS_DEFAULT = -1


def fit(message: Request, version: int) -> Request:
    """Return the request as `version` has it: the same object if nothing is to be changed.

    Raises:
        UnsupportedVersionError: The version cannot do what the request asks for.
    """
    found = _FITS.get(type(message))
    if found is None or version >= found[0]:
        return message
    fitted = copy.copy(message)
    found[1](fitted, version)
    return fitted


def _fit_create_topics(message: Any, version: int) -> None:
    names = [
        topic.name
        for topic in message.topics
        if not topic.assignments and BROKERS_DEFAULT in (topic.num_partitions, topic.replication_factor)
    ]
    if names:
        raise UnsupportedVersionError(
            "brokers before Kafka 2.4 have no default for a topic's partitions and replication factor: "
            f"name both for {', '.join(names)}"
        )


def _fit_delete_acls(message: Any, version: int) -> None:
    message.filters = [copy.copy(each) for each in message.filters]
    for each in message.filters:
        each.pattern_type_filter = _literal(each.pattern_type_filter)


def _fit_describe_acls(message: Any, version: int) -> None:
    message.pattern_type_filter = _literal(message.pattern_type_filter)


def _literal(pattern_type: int) -> int:
    if pattern_type not in (ANY_PATTERN, LITERAL_PATTERN):
        raise UnsupportedVersionError("brokers before Kafka 2.0 know literal resource patterns only")
    return LITERAL_PATTERN


def _fit_delete_topics(message: Any, version: int) -> None:
    if message.topics:
        message.topic_names = [topic.name for topic in message.topics]
        message.topics = []


def _fit_describe_configs(message: Any, version: int) -> None:
    message.include_documentation = False
    if version < _SYNONYMS_SINCE:
        message.include_synonyms = False


def _fit_leave_group(message: Any, version: int) -> None:
    if len(message.members) > 1 or any(each.group_instance_id is not None for each in message.members):
        raise UnsupportedVersionError(
            "with brokers before Kafka 2.4, one member at a time leaves a group, by its member id"
        )
    for each in message.members:
        message.member_id = each.member_id
    message.members = []


def _fit_offset_fetch(message: Any, version: int) -> None:
    # They report what is committed, also while a transaction commits more.
    message.require_stable = False


_SYNONYMS_SINCE = 1
_FITS: dict[type[Request], tuple[int, Callable[[Any, int], None]]] = {
    CreateTopicsRequest: (4, _fit_create_topics),
    DeleteAclsRequest: (1, _fit_delete_acls),
    DeleteTopicsRequest: (6, _fit_delete_topics),
    DescribeAclsRequest: (1, _fit_describe_acls),
    DescribeConfigsRequest: (3, _fit_describe_configs),
    LeaveGroupRequest: (3, _fit_leave_group),
    OffsetFetchRequest: (7, _fit_offset_fetch),
}
"""The version from which on each request is sent as it is, and what fits it for versions before."""

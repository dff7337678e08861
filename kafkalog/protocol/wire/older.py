"""Requests for brokers of older releases: fields that their versions lack are left out where less is asked for then.

Callers fill a request in as its newest version wants it. A value that an older version lacks is an error of the
encoder, unless the version has another field for it, or has always behaved as the value asks, or does without.

Source: the builders of Kafka's requests, such as `OffsetFetchRequest.Builder` and `DeleteTopicsRequest.Builder`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from kafkalog.protocol.errors import UnsupportedCompressionTypeError, UnsupportedVersionError
from kafkalog.protocol.messages.create_acls import CreateAclsRequest
from kafkalog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkalog.protocol.messages.create_topics import CreateTopicsRequest
from kafkalog.protocol.messages.delete_acls import DeleteAclsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.describe_acls import DescribeAclsRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.messages.sync_group import SyncGroupRequest
from kafkalog.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalog.protocol.messages.update_features import UpdateFeaturesRequest
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.releases import (
    COMMIT_BY_STATIC_MEMBER,
    CONFIG_DOCUMENTATION,
    CONFIG_SYNONYMS,
    DEFAULTS_OF_TOPICS,
    DOWNGRADES_OF_FEATURES,
    GROUP_METADATA,
    HEARTBEAT_BY_STATIC_MEMBER,
    JOIN_BY_STATIC_MEMBER,
    LEAVE_OF_MEMBERS,
    OWNED_TOKENS,
    PATTERNS_OF_CREATED_ACLS,
    PATTERNS_OF_DELETED_ACLS,
    PATTERNS_OF_DESCRIBED_ACLS,
    PRESENT_EPOCH,
    STABLE_OFFSETS,
    SYNC_BY_STATIC_MEMBER,
    TOPICS_BY_ID,
    TRANSACTIONS_BY_DURATION,
    UNCLEAN_ELECTIONS,
    ZSTD,
    Since,
)

ANY_PATTERN, LITERAL_PATTERN = 1, 3
"""Kafka's `PatternType`. Before Kafka 2.0 all patterns were literal."""
BROKERS_DEFAULT = -1


def fit(message: Request, version: int) -> Request:
    """Return the request as `version` has it: the same object if nothing is to be changed.

    Raises:
        UnsupportedVersionError: The version cannot do what the request asks for.
        UnsupportedCompressionTypeError: The version takes no records of this codec.
    """
    found = _FITS.get(type(message))
    if found is None or version >= found[0].version:
        return message
    fitted = copy.copy(message)
    found[1](fitted, version)
    return fitted


def _fit_create_acls(message: Any, version: int) -> None:
    for each in message.creations:
        _literal(each.resource_pattern_type)


def _fit_create_delegation_token(message: Any, version: int) -> None:
    if message.owner_principal_name:
        raise UnsupportedVersionError(f"{OWNED_TOKENS.older} make tokens for the asking user only: name no owner")
    message.owner_principal_type = message.owner_principal_name = ""


def _fit_create_topics(message: Any, version: int) -> None:
    names = [
        topic.name
        for topic in message.topics
        if not topic.assignments and BROKERS_DEFAULT in (topic.num_partitions, topic.replication_factor)
    ]
    if names:
        raise UnsupportedVersionError(
            f"{DEFAULTS_OF_TOPICS.older} have no default for a topic's partitions and replication factor: "
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
        raise UnsupportedVersionError(f"{PATTERNS_OF_DESCRIBED_ACLS.older} know literal resource patterns only")
    return LITERAL_PATTERN


def _fit_delete_topics(message: Any, version: int) -> None:
    if message.topics:
        message.topic_names = [topic.name for topic in message.topics]
        message.topics = []


def _fit_describe_configs(message: Any, version: int) -> None:
    message.include_documentation = False
    if version < CONFIG_SYNONYMS.version:
        message.include_synonyms = False
        if any(each.resource_type == _BROKER and not each.resource_name for each in message.resources):
            raise UnsupportedVersionError(f"{CONFIG_SYNONYMS.older} have no dynamic configurations of brokers")


def _fit_elect_leaders(message: Any, version: int) -> None:
    if message.election_type != _PREFERRED:
        raise UnsupportedVersionError(f"{UNCLEAN_ELECTIONS.older} elect preferred leaders only")


def _fit_init_producer_id(message: Any, version: int) -> None:
    # The coordinator gives the next epoch in any case. It does not compare the present one.
    message.producer_id = message.producer_epoch = -1


def _fit_leave_group(message: Any, version: int) -> None:
    if len(message.members) > 1 or any(each.group_instance_id is not None for each in message.members):
        raise UnsupportedVersionError(
            f"with {LEAVE_OF_MEMBERS.older}, one member at a time leaves a group, by its member id"
        )
    for each in message.members:
        message.member_id = each.member_id
    message.members = []


def _fit_list_transactions(message: Any, version: int) -> None:
    if message.duration_filter >= 0:
        raise UnsupportedVersionError(f"{TRANSACTIONS_BY_DURATION.older} list transactions of any duration only")


def _fit_member(message: Any, version: int) -> None:
    if message.group_instance_id is not None:
        raise UnsupportedVersionError(
            f"{JOIN_BY_STATIC_MEMBER.older} have no static members: leave group.instance.id out"
        )


def _fit_offset_fetch(message: Any, version: int) -> None:
    # They report what is committed, also while a transaction commits more.
    message.require_stable = False


def _fit_produce(message: Any, version: int) -> None:
    for topic in message.topic_data:
        for part in topic.partition_data:
            records = part.records
            if records and records[_MAGIC_AT] == _V2 and records[_CODEC_AT] & _CODEC_MASK == _ZSTD:
                raise UnsupportedCompressionTypeError(
                    f"{ZSTD.older} take no records that are compressed with zstd: set compression.type to another codec"
                )


def _fit_update_features(message: Any, version: int) -> None:
    if message.validate_only or any(each.upgrade_type != _UPGRADE for each in message.feature_updates):
        raise UnsupportedVersionError(
            f"{DOWNGRADES_OF_FEATURES.older} only upgrade features: they take no downgrade and no dry run"
        )


def _fit_txn_offset_commit(message: Any, version: int) -> None:
    if message.member_id or message.generation_id >= 0 or message.group_instance_id is not None:
        raise UnsupportedVersionError(
            f"{GROUP_METADATA.older} cannot check a consumer's group metadata in a transaction (KIP-447): "
            "send the offsets with the group's id alone, and give each input partition a transactional.id of its own"
        )


_BROKER = 4
_UPGRADE = 1
_PREFERRED = 0
_MAGIC_AT, _CODEC_AT = 16, 22
"""The places of the format and the codec in a record batch, as in `kafkalog.records.batch`. Protocol and records do not
import each other; `tests/kafkalog/protocol/wire/test_older.py` compares the two."""
_V2 = 2
_CODEC_MASK, _ZSTD = 7, 4
_FITS: dict[type[Request], tuple[Since, Callable[[Any, int], None]]] = {
    CreateAclsRequest: (PATTERNS_OF_CREATED_ACLS, _fit_create_acls),
    CreateDelegationTokenRequest: (OWNED_TOKENS, _fit_create_delegation_token),
    CreateTopicsRequest: (DEFAULTS_OF_TOPICS, _fit_create_topics),
    DeleteAclsRequest: (PATTERNS_OF_DELETED_ACLS, _fit_delete_acls),
    DeleteTopicsRequest: (TOPICS_BY_ID, _fit_delete_topics),
    DescribeAclsRequest: (PATTERNS_OF_DESCRIBED_ACLS, _fit_describe_acls),
    DescribeConfigsRequest: (CONFIG_DOCUMENTATION, _fit_describe_configs),
    ElectLeadersRequest: (UNCLEAN_ELECTIONS, _fit_elect_leaders),
    HeartbeatRequest: (HEARTBEAT_BY_STATIC_MEMBER, _fit_member),
    InitProducerIdRequest: (PRESENT_EPOCH, _fit_init_producer_id),
    JoinGroupRequest: (JOIN_BY_STATIC_MEMBER, _fit_member),
    LeaveGroupRequest: (LEAVE_OF_MEMBERS, _fit_leave_group),
    ListTransactionsRequest: (TRANSACTIONS_BY_DURATION, _fit_list_transactions),
    OffsetCommitRequest: (COMMIT_BY_STATIC_MEMBER, _fit_member),
    OffsetFetchRequest: (STABLE_OFFSETS, _fit_offset_fetch),
    ProduceRequest: (ZSTD, _fit_produce),
    SyncGroupRequest: (SYNC_BY_STATIC_MEMBER, _fit_member),
    TxnOffsetCommitRequest: (GROUP_METADATA, _fit_txn_offset_commit),
    UpdateFeaturesRequest: (DOWNGRADES_OF_FEATURES, _fit_update_features),
}
"""The version from which on each request is sent as it is, and what fits it for versions before."""

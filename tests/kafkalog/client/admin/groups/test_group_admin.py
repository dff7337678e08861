"""Tests of group administration: several coordinators, moved or unready ones, brokers with older versions."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafkalog.client.admin.groups.descriptions import DEAD, CommittedOffset, GroupListing, MemberToRemove
from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.consumer.classic.protocol import Assignment, encode_assignment
from kafkalog.client.errors import ClientTimeoutError, InvalidResponseError
from kafkalog.client.metadata import Broker
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnknownServerError,
    UnsupportedVersionError,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalog.protocol.messages.consumer_group_describe import DescribedGroup as Kip848Group
from kafkalog.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kafkalog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kafkalog.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.kafkalog.client.support import config_for
from tests.support import scripted
from tests.support.scripted import Answer, ScriptedBroker, Silence, api_versions, metadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLASSES = (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)


class Groups:
    """Two brokers; `coordinator` of each group, and errors that the next requests about a group get."""

    def __init__(self) -> None:
        self.coordinator = {"a": 0, "b": 1, "c": 0}
        self.errors: dict[str, list[int]] = {}
        self.silent: set[str] = set()
        self.asked: Counter[tuple[int, str]] = Counter()
        """The number of requests to describe or delete a group or to list its offsets, by broker and group."""
        self.limits: dict[str, int] = {}
        self.brokers = {node_id: self._broker(node_id) for node_id in range(2)}

    def _broker(self, node_id: int) -> ScriptedBroker:
        return ScriptedBroker(
            {
                ApiVersionsRequest: lambda request: self._versions(),
                MetadataRequest: lambda request: metadata(self.brokers, {}),
                FindCoordinatorRequest: self._find,
                ListGroupsRequest: lambda request: self._list(node_id, request),
                ConsumerGroupDescribeRequest: self._describe_kip848,
                DescribeGroupsRequest: lambda request: self._describe(node_id, request),
                OffsetFetchRequest: lambda request: self._fetch(node_id, request),
                DeleteGroupsRequest: lambda request: self._delete(node_id, request),
            }
        )

    def _versions(self) -> ApiVersionsResponse:
        found = api_versions(**self.limits)
        found.api_keys = [each for each in found.api_keys if each.max_version >= 0]
        return found

    def _error(self, node_id: int, group: str) -> int:
        self.asked[node_id, group] += 1
        if self.coordinator[group] != node_id:
            return ErrorCode.NOT_COORDINATOR
        queue = self.errors.get(group)
        return queue.pop(0) if queue else 0

    def _find(self, request: Any) -> Answer:
        node_id = self.coordinator[request.key]
        port = self.brokers[node_id].port
        return FindCoordinatorResponse(error_code=0, error_message=None, node_id=node_id, host="127.0.0.1", port=port)

    def _list(self, node_id: int, request: Any) -> Answer:
        queue = self.errors.get("")
        code = queue.pop(0) if queue else 0
        found = [name for name, at in self.coordinator.items() if at == node_id]
        return ListGroupsResponse(
            error_code=code,
            groups=[
                ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic")
                for name in ([] if code else found)
            ],
        )

    def _describe_kip848(self, request: Any) -> Answer:
        groups = [
            Kip848Group(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="none")
            for name in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe(self, node_id: int, request: Any) -> Answer:
        groups = []
        for name in request.groups:
            code = self._error(node_id, name)
            member = DescribedGroupMember(
                member_id=f"m-{name}",
                client_id="c",
                client_host="/h",
                member_assignment=encode_assignment(Assignment((T1, T0))),
            )
            if name not in self.silent:
                groups.append(
                    DescribedGroup(
                        error_code=code,
                        group_id=name,
                        group_state=DEAD if name == "c" else "Stable",
                        protocol_type="" if name == "c" else "consumer",
                        protocol_data="range",
                        members=[] if name == "c" else [member],
                    )
                )
        return DescribeGroupsResponse(groups=groups)

    def _fetch(self, node_id: int, request: Any) -> Answer:
        if not request.groups:
            old = OffsetFetchResponsePartition(partition_index=0, committed_offset=7, metadata=None, error_code=0)
            return OffsetFetchResponse(
                error_code=self._error(node_id, request.group_id),
                topics=[OffsetFetchResponseTopic(name="t", partitions=[old])],
            )
        none = OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata="", error_code=0)
        some = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=7, committed_leader_epoch=3, metadata="note", error_code=0
        )
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=each.group_id,
                    error_code=self._error(node_id, each.group_id),
                    topics=[OffsetFetchResponseTopics(name="t", partitions=[none, some])],
                )
                for each in request.groups
            ]
        )

    def _delete(self, node_id: int, request: Any) -> Answer:
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=self._error(node_id, name))
                for name in request.groups_names
            ]
        )


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    for cls in CLASSES:
        monkeypatch.setitem(scripted.REQUESTS, cls.api_key, cls)
    made = Groups()
    with made.brokers[0], made.brokers[1]:
        yield made


@pytest.fixture
def admin(groups: Groups) -> Iterator[GroupAdmin]:
    with GroupAdmin(config_for(*groups.brokers.values(), default_api_timeout_ms="20000")) as opened:
        yield opened


def test_each_coordinator_is_asked_for_its_own(groups: Groups, admin: GroupAdmin) -> None:
    found = admin.describe_groups(["b", "a", "c", "a"])
    assert list(found) == ["b", "a", "c"]
    assert groups.asked == {(0, "a"): 1, (1, "b"): 1, (0, "c"): 1}
    assert found["b"].coordinator == Broker(1, "127.0.0.1", groups.brokers[1].port)
    (member,) = found["a"].members
    assert (member.member_id, member.assignment) == ("m-a", (T0, T1))
    assert (found["c"].state, found["c"].members) == (DEAD, ())
    assert groups.brokers[0].seen[DescribeGroupsRequest] == 1, "two groups in one request"


def test_a_coordinator_that_moves_and_one_that_loads(groups: Groups, admin: GroupAdmin) -> None:
    admin.describe_groups(["a", "b", "c"])
    groups.coordinator["a"] = 1
    groups.errors["b"] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    groups.asked.clear()
    found = admin.offsets(["a", "b", "c"])
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == {T0: CommittedOffset(7, 3, "note")}
    # "a" once where it was and once where it is; "b" until it is loaded; "c" is not asked for again.
    assert groups.asked == {(0, "a"): 1, (1, "a"): 1, (1, "b"): 3, (0, "c"): 1}


def test_a_coordinator_that_is_never_ready(groups: Groups, admin: GroupAdmin) -> None:
    # It is connected first, which may take longer than the time-out on a slow machine.
    admin.offsets(["a", "b"])
    admin._config = replace(admin._config, default_api_timeout=0.3)
    groups.errors["b"] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100_000
    with pytest.raises(ClientTimeoutError, match="group b"):
        admin.offsets(["a", "b"])


def test_a_last_try_without_a_coordinator_does_not_hide_what_is_wrong(groups: Groups, admin: GroupAdmin) -> None:
    admin.offsets(["a", "b"])
    admin._config = replace(admin._config, default_api_timeout=1.0)
    groups.errors["b"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    for broker in groups.brokers.values():
        broker.handlers[FindCoordinatorRequest] = lambda request: Silence()
    with pytest.raises(ClientTimeoutError, match=r"before that: .*group b"):
        admin.offsets(["a", "b"])


def test_a_coordinator_that_does_not_answer_holds_up_its_own_groups_only(groups: Groups, admin: GroupAdmin) -> None:
    # They are connected first, which may take longer than the time-out on a slow machine.
    admin.offsets(["a", "b"])
    answered: list[bool] = []
    other_is_asked = threading.Event()
    first, second = (groups.brokers[number].handlers for number in (0, 1))
    fetch = first[OffsetFetchRequest]

    def after_the_other(request: Any) -> Answer:
        answered.append(other_is_asked.wait(20))
        return fetch(request)

    def silent(request: Any) -> Answer:
        other_is_asked.set()
        return Silence()

    first[OffsetFetchRequest], second[OffsetFetchRequest] = after_the_other, silent
    found = admin.offsets_each(["a", "b", "c"], timeout=1.0)
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == found["c"] == {T0: CommittedOffset(7, 3, "note")}
    assert isinstance(found["b"], ClientTimeoutError)
    assert answered == [True], "both are asked at once"


def test_outcomes_of_deletion(groups: Groups, admin: GroupAdmin) -> None:
    groups.errors = {"a": [ErrorCode.NON_EMPTY_GROUP], "c": [ErrorCode.GROUP_ID_NOT_FOUND]}
    found = admin.delete_groups(["a", "b", "c"])
    assert list(found) == ["a", "b", "c"]
    assert isinstance(found["a"], NonEmptyGroupError)
    assert found["b"] is None
    assert isinstance(found["c"], GroupIdNotFoundError)


def test_an_error_of_one_group_is_raised(groups: Groups, admin: GroupAdmin) -> None:
    groups.errors["b"] = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(GroupAuthorizationFailedError, match="group b"):
        admin.describe_groups(["a", "b"])


def test_an_answer_without_the_group(groups: Groups, admin: GroupAdmin) -> None:
    groups.silent = {"a"}
    with pytest.raises(InvalidResponseError, match="group a"):
        admin.describe_groups(["a", "c"])


def test_the_list_is_of_all_brokers(groups: Groups, admin: GroupAdmin) -> None:
    groups.errors[""] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert admin.list_groups() == [GroupListing(name, "consumer", "Empty", "Classic") for name in "abc"]


def test_a_broker_that_does_not_answer_keeps_no_other_groups_from_being_listed(
    groups: Groups, admin: GroupAdmin
) -> None:
    # They are connected first, which may take longer than the time-out on a slow machine.
    assert [each.group for each in admin.list_groups()] == ["a", "b", "c"]
    silent, other = groups.brokers[0].handlers, groups.brokers[1].handlers
    is_silent, answered, waited = threading.Event(), other[ListGroupsRequest], []

    def say_nothing(request: Any) -> Answer:
        is_silent.set()
        return Silence()

    def after_the_silent_one(request: Any) -> Answer:
        waited.append(is_silent.wait(20))
        return answered(request)

    silent[ListGroupsRequest], other[ListGroupsRequest] = say_nothing, after_the_silent_one
    found = admin.list_groups_each(timeout=1.0)
    assert list(found) == [0, 1]
    assert isinstance(found[0], ClientTimeoutError)
    assert found[1] == [GroupListing("b", "consumer", "Empty", "Classic")]
    assert waited == [True], "both are asked at once"


def test_brokers_of_before(groups: Groups, admin: GroupAdmin) -> None:
    """No groups of KIP-848, one group in an OffsetFetch, no filters."""
    groups.limits = {"CONSUMER_GROUP_DESCRIBE": -1, "OFFSET_FETCH": 7, "LIST_GROUPS": 3}
    assert admin.describe_groups(["a"])["a"].state == "Stable"
    assert groups.brokers[0].seen[ConsumerGroupDescribeRequest] == 0
    assert admin.offsets(["a", "c"]) == {"a": {T0: CommittedOffset(7)}, "c": {T0: CommittedOffset(7)}}
    assert admin.list_groups()[0] == GroupListing("a", "consumer", "", "")
    with pytest.raises(UnsupportedVersionError):
        admin.list_groups(states=["Stable"])


def test_one_member_is_removed_by_its_id_from_brokers_before_kafka_2_4(groups: Groups, admin: GroupAdmin) -> None:
    """As in Java (`LeaveGroupRequest.Builder`)."""
    groups.limits["LEAVE_GROUP"] = 2
    first, second = MemberToRemove("m-1"), MemberToRemove("m-2")
    codes = [0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    left: list[str] = []

    def leave(request: LeaveGroupRequest) -> LeaveGroupResponse:
        left.append(request.member_id)
        return LeaveGroupResponse(error_code=codes[len(left) - 1])

    groups.brokers[0].handlers[LeaveGroupRequest] = leave
    assert admin.remove_members("a", [first]) == {first: None}
    assert isinstance(admin.remove_members("a", [second])[second], UnknownMemberIdError)
    with pytest.raises(GroupAuthorizationFailedError, match="group a"):
        admin.remove_members("a", [first])
    assert left == ["m-1", "m-2", "m-1"]
    for members in ([first, second], [MemberToRemove(instance_id="host-7")]):
        with pytest.raises(UnsupportedVersionError, match=r"brokers before Kafka 2\.4, one member at a time"):
            admin.remove_members("a", members)


def test_members_that_an_answer_leaves_out(groups: Groups, admin: GroupAdmin) -> None:
    host, member, other = MemberToRemove(instance_id="host-7"), MemberToRemove("m-1"), MemberToRemove("m-2")
    found = [MemberResponse(member_id="m-2"), MemberResponse(member_id="m-9", group_instance_id="host-7")]
    groups.brokers[0].handlers[LeaveGroupRequest] = lambda request: LeaveGroupResponse(members=found)
    outcomes = admin.remove_members("a", [host, member, other])
    assert (outcomes[host], outcomes[other]) == (None, None)
    assert isinstance(outcomes[member], UnknownServerError)
    code = ErrorCode.UNKNOWN_MEMBER_ID
    groups.brokers[0].handlers[LeaveGroupRequest] = lambda request: LeaveGroupResponse(error_code=code)
    assert [type(each) for each in admin.remove_members("a", [host, member]).values()] == [UnknownMemberIdError] * 2

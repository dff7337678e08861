"""Consumer groups seen from outside: list, describe and delete them, change their offsets, remove members.

Every request about a group goes to the group's coordinator. The coordinator is looked up first, and again when it has
moved. Groups of both protocols are described alike: the classic one (JoinGroup, SyncGroup) and that of KIP-848
(ConsumerGroupHeartbeat).

Where a call names several groups, partitions or members, each has an outcome of its own: None, or the error that the
coordinator reports. Retriable errors are retried until `default.api.timeout.ms` is over; then the call raises
ClientTimeoutError. All coordinators are asked at once, so one that does not answer holds up its own groups only.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from kafkalog.client.admin.connected import Connected
from kafkalog.client.admin.every_broker import ask_each_broker, ask_every_broker
from kafkalog.client.admin.groups.descriptions import (
    CONSUMER_TYPE,
    DEAD,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    MemberToRemove,
    of_classic,
    of_next_generation,
)
from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.classic.protocol import MalformedMemberDataError
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import InvalidResponseError, is_retriable, left_out
from kafkalog.client.metadata import Broker
from kafkalog.client.network.at_once import ask_at_once
from kafkalog.client.outcomes import values_of
from kafkalog.client.retry import Retry
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from kafkalog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafkalog.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafkalog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkalog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafkalog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from kafkalog.protocol.wire.releases import (
    GROUPS_BY_STATE,
    GROUPS_BY_TYPE,
    OFFSETS_OF_GROUPS,
    STABLE_OFFSETS,
)

_REASON = "member was removed by an admin"

Outcome: TypeAlias = KafkaError | None
Ask: TypeAlias = Callable[[Broker, Sequence[str], float], Mapping[str, Any]]


class GroupAdmin(Connected):
    """The part of `Admin` that administers consumer groups; also usable by itself."""

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self._config = config
        super().__init__(config, cluster=cluster)
        self._coordinators = Coordinators(self.cluster)

    # Reading

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """List the groups of all brokers, sorted by name; only those in `states` and of `types`, where given.

        Raises:
            UnsupportedVersionError: A broker is too old to filter.
            KafkaError: A broker reports an error.
        """
        retry = Retry(self._config)
        answers = ask_every_broker(self.cluster, retry, self._listing(states, types, retry))
        return _by_name(chain.from_iterable(answers))

    def list_groups_each(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> dict[int, list[GroupListing] | Exception]:
        """List groups as `list_groups` does; return for each broker those that it coordinates, or its error.

        A broker that does not answer does not keep the groups of the others from being listed. `timeout` is in seconds;
        it is `default.api.timeout.ms` unless given.

        Raises:
            ClientTimeoutError: No broker has answered.
        """
        retry = Retry(self._config, None if timeout is None else time.monotonic() + timeout)
        return ask_each_broker(self.cluster, retry, self._listing(states, types, retry))

    def _listing(
        self, states: Iterable[str], types: Iterable[str], retry: Retry
    ) -> Callable[[int], list[GroupListing]]:
        """Return what asks a broker for its groups."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        least = 0
        if request.types_filter or request.states_filter:
            least = (GROUPS_BY_TYPE if request.types_filter else GROUPS_BY_STATE).version

        def ask(node_id: int) -> list[GroupListing]:
            response: ListGroupsResponse = self.cluster.request_to(
                node_id, request, timeout=self._timeout(retry), min_version=least
            )
            if response.error_code:
                raise _error(response.error_code, f"broker {node_id}")
            return _by_name(
                GroupListing(each.group_id, each.protocol_type, each.group_state, each.group_type.capitalize())
                for each in response.groups
            )

        return ask

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Describe the state and the members of each group.

        Raises:
            GroupAuthorizationFailedError: The client may not describe the group.
            KafkaError: The broker reports another error.
        """
        return values_of(self.describe_groups_each(groups))

    def describe_groups_each(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription | Exception]:
        """Describe groups as `describe_groups` does; return for each its description or its error.

        `timeout` is in seconds; it is `default.api.timeout.ms` unless given.

        Raises:
            KafkaError, ClientError: A coordinator refuses the whole request, or cannot be asked for a lasting reason.
        """
        return self._outcomes(groups, self._describe, timeout)

    def offsets(
        self, groups: Iterable[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Read what each group has committed, sorted by partition; an empty dict for a group that does not exist.

        `require_stable` waits for the end of transactions that commit offsets (KIP-447).

        Raises:
            GroupAuthorizationFailedError: The client may not describe the group.
            KafkaError: The broker reports another error, or one of a partition; then it is the first.
        """
        return values_of(self.offsets_each(groups, require_stable=require_stable))

    def offsets_each(
        self, groups: Iterable[str], *, require_stable: bool = False, timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | Exception]:
        """Read what groups have committed as `offsets` does; return for each its offsets or its error.

        `timeout` is in seconds; it is `default.api.timeout.ms` unless given.

        Raises:
            KafkaError, ClientError: A coordinator refuses the whole request, or cannot be asked for a lasting reason.
        """

        def ask(coordinator: Broker, names: Sequence[str], timeout: float) -> Mapping[str, Any]:
            try:
                return self._fetch_many(coordinator, names, timeout, require_stable)
            except UnsupportedVersionError:
                return self._fetch_single(coordinator, names, timeout, require_stable)

        return self._outcomes(groups, ask, timeout)

    # Changing

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]) -> None:
        """Commit positions for a group that has no members. A group that does not exist is created.

        A position is an offset, or a `CommittedOffset` with a note and a leader epoch.

        Raises:
            UnknownMemberIdError: The group has members.
            GroupAuthorizationFailedError: The client may not use the group.
            KafkaError: The broker reports another error, or one of a partition. The first of these is raised once the
                other partitions have been committed.
        """
        GroupOffsets(self.cluster, group, coordinators=self._coordinators).commit(offsets)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Outcome]:
        """Delete the committed offsets of a group in these partitions.

        An outcome may be GroupSubscribedToTopicError or UnknownTopicOrPartitionError.

        Raises:
            GroupIdNotFoundError: There is no such group.
            NonEmptyGroupError: The group has members that are not consumers.
            KafkaError: The broker reports another error.
        """
        topics: dict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
        for tp in sorted(partitions):
            topics[tp.topic].append(OffsetDeleteRequestPartition(partition_index=tp.partition))
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response: OffsetDeleteResponse = self._coordinators.request(
            CoordinatorType.GROUP, group, request, lambda answer: _check(answer.error_code, f"group {group}")
        )
        outcomes: dict[TopicPartition, Outcome] = {tp: left_out(f"partition {tp}") for tp in sorted(partitions)}
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                outcomes[tp] = _outcome(each.error_code, f"partition {tp}")
        return outcomes

    def delete_groups(self, groups: Iterable[str]) -> dict[str, Outcome]:
        """Delete groups and their committed offsets. An outcome may be NonEmptyGroupError or GroupIdNotFoundError.

        Raises:
            ClientTimeoutError: A coordinator has not answered in time. Groups of other coordinators are deleted.
        """
        outcomes: dict[str, Outcome] = {}
        for name, outcome in self.delete_groups_each(groups).items():
            if outcome is not None and not isinstance(outcome, KafkaError):
                raise outcome
            outcomes[name] = outcome
        return outcomes

    def delete_groups_each(self, groups: Iterable[str]) -> dict[str, Exception | None]:
        """Delete groups as `delete_groups` does; where a coordinator does not answer, that is the group's outcome.

        Raises:
            KafkaError, ClientError: A coordinator refuses the whole request, or cannot be asked for a lasting reason.
        """

        def ask(coordinator: Broker, names: Sequence[str], timeout: float) -> Mapping[str, Any]:
            response: DeleteGroupsResponse = self.cluster.request_to(
                coordinator.node_id, DeleteGroupsRequest(groups_names=list(names)), timeout=timeout
            )
            return {each.group_id: _outcome(each.error_code, f"group {each.group_id}") for each in response.results}

        return self._outcomes(groups, ask)

    def remove_members(
        self, group: str, members: Collection[MemberToRemove] | None = None, *, reason: str = ""
    ) -> dict[MemberToRemove, Outcome]:
        """Remove members from a group (None: all members), so that the others get their partitions at once.

        Use it for static members that will not come back; a member that is alive notices, and joins again. An outcome
        may be UnknownMemberIdError. `reason` is for the broker's log (KIP-800).

        Raises:
            GroupIdNotFoundError: All members are to be removed from a group that does not exist.
            InvalidRequestError: The group is one of KIP-848, whose members can only leave by themselves.
            GroupAuthorizationFailedError: The client may not use the group.
            UnsupportedVersionError: The coordinator is older than Kafka 2.4. It removes one member, by its member id.
            KafkaError: The broker reports another error.
        """
        described = self.describe_groups([group])[group]
        if described.type == CONSUMER_TYPE:
            raise InvalidRequestError(f"group {group}: members of a group of the consumer protocol leave by themselves")
        if members is None:
            if described.state == DEAD:
                raise GroupIdNotFoundError(f"group {group}: The group does not exist.")
            members = [
                MemberToRemove(instance_id=each.instance_id) if each.instance_id else MemberToRemove(each.member_id)
                for each in described.members
            ]
        if not members:
            return {}
        request = LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    reason=f"{_REASON}: {reason}" if reason else _REASON,
                )
                for each in members
            ],
        )

        def leave(coordinator: Broker, timeout: float) -> LeaveGroupResponse:
            answer: LeaveGroupResponse = self.cluster.request_to(coordinator.node_id, request, timeout=timeout)
            if answer.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                _check(answer.error_code, f"group {group}")
            return answer

        response = self._coordinators.run(CoordinatorType.GROUP, group, leave)
        names = {each: each.instance_id or each.member_id for each in members}
        codes = {each.group_instance_id or each.member_id: each.error_code for each in response.members}
        if not codes and (response.error_code or len(names) == 1):
            # The answer is about all members. An older broker was asked about one.
            codes = dict.fromkeys(names.values(), response.error_code)
        return {
            wanted: _outcome(codes[name], f"member {name}") if name in codes else left_out(f"member {name}")
            for wanted, name in names.items()
        }

    # Requests to coordinators

    def _describe(self, coordinator: Broker, names: Sequence[str], timeout: float) -> Mapping[str, Any]:
        """Ask for groups of KIP-848 first, and then for the rest as classic groups, as Kafka's admin client does."""
        found: dict[str, Any] = {}
        try:
            answer: ConsumerGroupDescribeResponse = self.cluster.request_to(
                coordinator.node_id, ConsumerGroupDescribeRequest(group_ids=list(names)), timeout=timeout
            )
        except UnsupportedVersionError:
            pass
        else:
            for each in answer.groups:
                if each.error_code == ErrorCode.NONE:
                    found[each.group_id] = of_next_generation(each, coordinator)
                elif each.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                    found[each.group_id] = _error(each.error_code, f"group {each.group_id}", each.error_message)
        rest = [name for name in names if name not in found]
        if rest:
            response: DescribeGroupsResponse = self.cluster.request_to(
                coordinator.node_id, DescribeGroupsRequest(groups=rest), timeout=timeout
            )
            for group in response.groups:
                error = _outcome(group.error_code, f"group {group.group_id}")
                found[group.group_id] = _classic(group, coordinator) if error is None else error
        return found

    def _fetch_many(
        self, coordinator: Broker, names: Sequence[str], timeout: float, require_stable: bool
    ) -> Mapping[str, Any]:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
            require_stable=require_stable,
        )
        response: OffsetFetchResponse = self.cluster.request_to(
            coordinator.node_id, request, timeout=timeout, min_version=OFFSETS_OF_GROUPS.version
        )
        return {each.group_id: _offsets(each.group_id, each) for each in response.groups}

    def _fetch_single(
        self, coordinator: Broker, names: Sequence[str], timeout: float, require_stable: bool
    ) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name in names:
            request = OffsetFetchRequest(group_id=name, topics=None, require_stable=require_stable)
            response: OffsetFetchResponse = self.cluster.request_to(
                coordinator.node_id,
                request,
                timeout=timeout,
                max_version=OFFSETS_OF_GROUPS.version - 1,
                min_version=STABLE_OFFSETS.version if require_stable else 0,
            )
            found[name] = _offsets(name, response)
        return found

    # Many groups, each from its own coordinator

    def _outcomes(self, groups: Iterable[str], ask: Ask, timeout: float | None = None) -> dict[str, Any]:
        """Call `ask` for all groups; return, in their order, its values and errors.

        `ask` gets a coordinator, the groups that belong to it, and a timeout in seconds. Groups whose outcome is a
        retriable error are asked for again, perhaps from another coordinator; in the end it is a ClientTimeoutError.
        """
        names = list(dict.fromkeys(groups))
        retry = Retry(self._config, None if timeout is None else time.monotonic() + timeout)
        found: dict[str, Any] = {}
        while left := [name for name in names if name not in found]:
            again: dict[str, Exception] = {}
            for name, outcome in self._ask(left, ask, retry).items():
                if isinstance(outcome, Exception) and is_retriable(outcome):
                    again[name] = outcome
                    self._coordinators.notice(CoordinatorType.GROUP, name, outcome)
                else:
                    found[name] = outcome
            if again:
                found |= retry.after_each(again)
        return {name: found[name] for name in names}

    def _ask(self, names: Sequence[str], ask: Ask, retry: Retry) -> dict[str, Any]:
        """Try once; every group has an outcome, which may be a retriable error."""
        outcomes: dict[str, Any] = {}
        of_coordinator: dict[Broker, list[str]] = defaultdict(list)
        for name in names:
            try:
                coordinator = self._coordinators.find_now(CoordinatorType.GROUP, name, deadline=retry.deadline)
            except KafkaError as error:
                outcomes[name] = error
            except Exception as error:
                if not is_retriable(error):
                    raise
                # No broker has answered until the deadline. An error before may say more.
                return dict.fromkeys(names, error)
            else:
                of_coordinator[coordinator].append(name)
        asked = ask_at_once(of_coordinator, lambda each: ask(each, of_coordinator[each], self._timeout(retry)))
        for coordinator, answers in asked.items():
            if isinstance(answers, Exception) and not is_retriable(answers):
                raise answers
            for name in of_coordinator[coordinator]:
                if isinstance(answers, Exception):
                    outcomes[name] = answers
                elif name in answers:
                    outcomes[name] = answers[name]
                else:
                    raise InvalidResponseError(f"a request about group {name} was answered without it")
        return outcomes

    def _timeout(self, retry: Retry) -> float:
        return min(self._config.request_timeout, max(retry.left, 0.001))


def _by_name(groups: Iterable[GroupListing]) -> list[GroupListing]:
    found = {each.group: each for each in groups}
    return [found[name] for name in sorted(found)]


def _classic(group: DescribedGroup, coordinator: Broker) -> GroupDescription | MalformedMemberDataError:
    try:
        return of_classic(group, coordinator)
    except MalformedMemberDataError as error:
        return error


def _offsets(group: str, answer: Any) -> dict[TopicPartition, CommittedOffset] | KafkaError:
    """Read one group of an OffsetFetch response, or a whole response that is about one group."""
    if answer.error_code:
        return _error(answer.error_code, f"group {group}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                return _error(each.error_code, f"group {group}, reading the offset of {tp}")
            if each.committed_offset >= 0:
                found[tp] = CommittedOffset(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
    return dict(sorted(found.items()))


def _error(code: int, what: str, message: str | None = None) -> KafkaError:
    error = error_for(code)
    return type(error)(f"{what}: {message or error.message}")


def _outcome(code: int, what: str) -> Outcome:
    return _error(code, what) if code else None


def _check(code: int, what: str) -> None:
    if code:
        raise _error(code, what)

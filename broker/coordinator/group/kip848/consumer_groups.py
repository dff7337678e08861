"""The requests of the consumer protocol (KIP-848): heartbeats, descriptions, and changes of a group's protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from broker.config.group import GROUP_CONFIG
from broker.config.server import BrokerConfig
from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from broker.coordinator.group.coordinator_parts import Group, GroupKind
from broker.coordinator.group.kip848.advance import matched_anew, stale_regexes
from broker.coordinator.group.kip848.assignors import ASSIGNORS
from broker.coordinator.group.kip848.config import ConsumerGroupConfig, MigrationPolicy
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.kip848.context import Context, Matched
from broker.coordinator.group.kip848.conversion import can_downgrade, can_upgrade, downgraded, least_stored, upgraded
from broker.coordinator.group.kip848.formats.log_records import TYPES, decode_record
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_PARTITIONS,
    Assignment,
    Member,
    ResolvedRegex,
)
from broker.coordinator.group.kip848.requests.describe import describe
from broker.coordinator.group.kip848.requests.heartbeat import check_request, heartbeat, is_leaving, leave, leaver
from broker.coordinator.group.kip848.topics.cluster_topics import ClusterTopics
from broker.coordinator.group.membership import Answer, Membership, Moment, Store
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.partition_groups import PartitionGroups
from broker.coordinator.group.records import UnreadableRecordError
from broker.coordinator.group.replay import Replay
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.state_log import size_of
from broker.metadata.cache import MetadataCache
from kafkalog.protocol.errors import (
    ErrorCode,
    GroupIdNotFoundError,
    InvalidRegularExpressionError,
    KafkaError,
    NotCoordinatorError,
    UnknownServerError,
    UnsupportedVersionError,
)
from kafkalog.protocol.messages.consumer_group_describe import DescribedGroup
from kafkalog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalog.protocol.primitives import ProtocolError

logger = logging.getLogger(__name__)

_KAFKA_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
PROTOCOL = "consumer"
ASKED_AT_ONCE = 200
"""The number of topics about which the authorizer is asked before other requests have their turn."""


def consumer_group_config(config: BrokerConfig) -> ConsumerGroupConfig:
    """Return the broker's settings for groups of the consumer protocol."""
    names = [_KAFKA_CLASSES.get(name, name) for name in config["group.consumer.assignors"]]
    return ConsumerGroupConfig(
        session_timeout_ms=config["group.consumer.session.timeout.ms"],
        heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
        max_size=config["group.consumer.max.size"],
        classic_max_size=config["group.max.size"],
        assignors=tuple(name for name in names if name in ASSIGNORS) or tuple(ASSIGNORS),
        migration_policy=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
    )


class ConsumerGroups:
    """Serves the requests of the consumer protocol. Used on the event loop's thread only."""

    def __init__(self, coordinator: GroupCoordinator, cache: MetadataCache) -> None:
        self._coordinator = coordinator
        self._cache = cache
        self._topics = ClusterTopics(cache, coordinator.runtime.workers)
        self._config: tuple[BrokerConfig | None, ConsumerGroupConfig] = (None, ConsumerGroupConfig())
        coordinator.kinds.append(GroupKind(TYPES, ConsumerGroup, _read, self._load))

    async def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
        owned: Assignment | None,
        sees: Callable[[str], bool] | None = None,
    ) -> ConsumerGroupHeartbeatResponse:
        """Handle ConsumerGroupHeartbeat.

        Args:
            request: the request.
            version: its version.
            client_id: of the client.
            client_host: of the client.
            owned: see `requests.heartbeat`.
            sees: returns whether the client may know of a topic; None if it may know of all.

        Raises:
            KafkaError: see `requests.heartbeat`, and what `GroupCoordinator.partition_groups_for` raises.
        """
        self._check_enabled()
        partition_groups = self._coordinator.partition_groups_for(request.group_id)
        now = self._coordinator.now()
        context = replace(self._context(request.group_id, now, client_id, client_host), sees=sees)
        check_request(request, version, context)
        if await self._match(request, partition_groups, sees):
            partition_groups = self._coordinator.partition_groups_for(request.group_id)
            now = self._coordinator.now()
            context = replace(self._context(request.group_id, now, client_id, client_host), sees=sees)
        group = partition_groups.groups.get(request.group_id)
        present = group.membership if group is not None else None
        if isinstance(present, ConsumerMembership):
            context = self._match_anew(present, context)
        token = asyncio.get_running_loop().create_future()
        if is_leaving(request):
            membership = self._existing(request.group_id, present)
            outcome = leave(membership.group, request, context)
            member = leaver(membership.group, request)
            if request.member_epoch != LEAVE_EPOCH or not self._downgrade(
                membership, [member], now, Answer(token, outcome.response)
            ):
                membership.apply(outcome, token, now)
        elif request.member_epoch == JOIN_EPOCH and isinstance(present, ClassicGroup) and not _is_empty(present):
            assert group is not None
            self._upgrade(partition_groups, group, present, request, context, token, now)
        else:
            membership = self._found(request, present)
            # Make the change before the group: an error leaves no group behind.
            membership.apply(heartbeat(membership.group, request, context, owned), token, now)
            if group is None:
                group = partition_groups.groups[request.group_id] = Group(request.group_id, membership, GroupOffsets())
            elif present is not membership:
                partition_groups.convert(group, membership)
        assert group is not None
        partition_groups.settle(group)
        result = await token
        if isinstance(result, Exception):
            raise result
        response: ConsumerGroupHeartbeatResponse = result
        return response

    def describe(self, group_id: str) -> DescribedGroup:
        """Handle ConsumerGroupDescribe of one group.

        Raises:
            UnsupportedVersionError: the protocol is not enabled.
            GroupIdNotFoundError: there is no such group, or it is of another protocol.
            InvalidGroupIdError: the id is empty.
            NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError: see
                `GroupCoordinator.partition_groups_for`.
        """
        self._check_enabled()
        group = self._coordinator.partition_groups_for(group_id).groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        membership = self._existing(group_id, group.membership)
        return describe(membership.group, self._context(group_id, self._coordinator.now()))

    # -- regular expressions

    async def _match(
        self,
        request: ConsumerGroupHeartbeatRequest,
        partition_groups: PartitionGroups,
        sees: Callable[[str], bool] | None,
    ) -> bool:
        """Match an expression that the group does not have; return whether that took time.

        If the expression is refused, the request finds that out again.
        """
        regex = request.subscribed_topic_regex
        group = partition_groups.groups.get(request.group_id)
        membership = None if group is None else group.membership
        if not regex or (isinstance(membership, ConsumerMembership) and regex in membership.group.regexes):
            return False
        with suppress(InvalidRegularExpressionError):
            matched = await self._topics.match(request.group_id, regex)
            await _ask(sees, matched.topics)
        return True

    def _match_anew(self, membership: ConsumerMembership, context: Context) -> Context:
        """Return the context of a request, with the matches of the group's stale expressions that are known.

        Nobody waits for the others: they are matched meanwhile, for a later heartbeat.
        """
        regexes = membership.group.regexes
        if not regexes:
            return context
        context = replace(context, matched=membership.matched)
        wanted = [
            regex for regex in stale_regexes(regexes, context) if matched_anew(regex, regexes[regex], context) is None
        ]
        if wanted and not membership.is_matching:
            membership.is_matching = True
            membership.matched = {regex: known for regex, known in membership.matched.items() if regex in regexes}
            stale = {regex: regexes[regex] for regex in wanted}
            self._coordinator.spawn(self._work_out(membership, stale, context.sees))
        return context

    async def _work_out(
        self,
        membership: ConsumerMembership,
        stale: Mapping[str, ResolvedRegex],
        sees: Callable[[str], bool] | None,
    ) -> None:
        group_id = membership.group.group_id
        try:
            for regex, resolved in stale.items():
                try:
                    matched = await self._topics.match(group_id, regex)
                    await _ask(sees, matched.topics)
                except InvalidRegularExpressionError:
                    matched = Matched(resolved.topics, self._topics.version)
                membership.matched[regex] = matched
        except Exception:
            # The task has no caller. Members keep what they have, and a later heartbeat begins the match again.
            logger.exception("regular expressions of group %s could not be matched; retrying later", group_id)
        finally:
            membership.is_matching = False

    # -- groups that change their protocol

    def _upgrade(
        self,
        partition_groups: PartitionGroups,
        group: Group,
        classic: ClassicGroup,
        request: ConsumerGroupHeartbeatRequest,
        context: Context,
        token: asyncio.Future[Any],
        now: Moment,
    ) -> None:
        """Convert a classic group, because its first member of the consumer protocol joins.

        Raises:
            GroupIdNotFoundError: the group may not change its protocol.
            UnknownServerError: the log takes no batch of so many bytes.
            KafkaError: the member may not join.
        """
        if not can_upgrade(classic, context.config):
            raise GroupIdNotFoundError(f"Group {group.id} is not a consumer group.")
        if least_stored(classic) > self._coordinator.most_stored(group.id):
            raise UnknownServerError
        records, timers = upgraded(classic, self._topics)
        made = ConsumerGroup(group.id)
        for record in records:
            made.replay(record)
        # A member that joins owns no partitions.
        outcome = heartbeat(made, request, context, NO_PARTITIONS)
        outcome.records[:0] = records
        outcome.timers[:0] = timers
        membership = self._membership(made)

        def undo(answers: list[Answer]) -> None:
            group.membership = classic
            classic.out += answers

        membership.apply(outcome, token, now, before=classic.tombstones(group.id), on_failure=undo)
        logger.info("group %s becomes one of the consumer protocol", group.id)
        classic.release(ErrorCode.REBALANCE_IN_PROGRESS)
        partition_groups.settle(group)
        group.membership = membership

    def _downgrade(
        self, membership: ConsumerMembership, gone: Collection[Member], now: Moment, answer: Answer | None = None
    ) -> bool:
        """Make a group classic when its last members of the consumer protocol are gone; return whether it is classic.

        The result is True also if the group has become classic since: then nothing is left to do for the members.
        """
        group_id = membership.group.group_id
        partition_groups = self._coordinator.partition_groups_for(group_id)
        group = partition_groups.groups.get(group_id)
        if group is None or group.membership is not membership:
            return True
        leaving = {member.member_id for member in gone}
        if not can_downgrade(membership.group, leaving, self.config(group_id)):
            return False
        left = len(membership.group.members) - len(leaving)
        too_many, largest_batch = membership.refused_as_classic
        if left >= too_many and self._largest_batch(group_id) <= largest_batch:
            return False
        try:
            classic = downgraded(
                membership.group,
                leaving,
                self._topics,
                partition_groups.settings(),
                partition_groups.new_member_id,
                now,
            )
        except ProtocolError as error:
            logger.warning("group %s cannot become a classic one: %s", group_id, error)
            return False
        records = [*membership.tombstones(group_id), classic.record()]
        if size_of(records) > self._most_stored(group_id):
            self._stay(membership, left)
            return False
        logger.info("group %s becomes a classic one", group_id)
        membership.refuse(NotCoordinatorError())
        partition_groups.settle(group)

        def done(error: ErrorCode | None, then: Moment) -> None:
            if error is None or error is ErrorCode.REQUEST_TIMED_OUT:
                return
            classic.unload()
            group.membership = membership
            if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                # They were compressed, so that their size was not known before.
                self._stay(membership, left)
            membership.carry_on([each for each in classic.out if isinstance(each, Answer)])

        group.membership = classic
        classic.out.append(Store(records, done, answer))
        classic.take_over(now)
        partition_groups.settle(group)
        return True

    def _stay(self, membership: ConsumerMembership, count: int) -> None:
        """Note that a group of so many members cannot become classic, so that this is not tried for ever.

        It is tried again if a larger `max.message.bytes` is set.
        """
        membership.refused_as_classic = count, self._largest_batch(membership.group.group_id)
        logger.warning(
            "group %s stays one of the consumer protocol, with %d members of the classic protocol: the records of the "
            "classic group would be larger than __consumer_offsets takes. Set a larger max.message.bytes of that topic",
            *(membership.group.group_id, count),
        )

    def _membership(self, group: ConsumerGroup) -> ConsumerMembership:
        membership = ConsumerMembership(group, self._context)
        membership.on_fenced = self._downgrade
        membership.most_stored = lambda: self._most_stored(group.group_id)
        return membership

    def _most_stored(self, group_id: str) -> int:
        return self._limit_of_log(group_id, self._coordinator.log.most_bytes)

    def _largest_batch(self, group_id: str) -> int:
        return self._limit_of_log(group_id, self._coordinator.log.largest_batch)

    def _limit_of_log(self, group_id: str, bytes_of: Callable[[int], int]) -> int:
        try:
            return bytes_of(self._coordinator.log.partition_for(group_id))
        except KafkaError:
            # It is not led here any more.
            return 0

    def _existing(self, group_id: str, present: Membership | None) -> ConsumerMembership:
        if present is None:
            raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
        if not isinstance(present, ConsumerMembership):
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        return present

    def _found(self, request: ConsumerGroupHeartbeatRequest, present: Membership | None) -> ConsumerMembership:
        """Return the group's membership; a new one if a member joins a group that is missing, or empty and classic."""
        joins = request.member_epoch == JOIN_EPOCH
        if joins and (present is None or (isinstance(present, ClassicGroup) and _is_empty(present))):
            return self._membership(ConsumerGroup(request.group_id))
        return self._existing(request.group_id, present)

    def _context(self, group_id: str, now: Moment, client_id: str = "", client_host: str = "") -> Context:
        runtime = self._coordinator.runtime
        return Context(
            self._topics, self.config(group_id), now.wall_ms, lambda: str(runtime.uuid4()), client_id, client_host
        )

    def config(self, group_id: str) -> ConsumerGroupConfig:
        """Return the settings in force for a group."""
        config = self._coordinator.config
        if self._config[0] is not config:
            self._config = config, consumer_group_config(config)
        own = self._cache.image.group_config.get(group_id)
        if not own:
            return self._config[1]
        values = {name: GROUP_CONFIG[name].parse(text) for name, text in own.items()}
        return self._config[1].with_overrides(
            values.get("consumer.session.timeout.ms"), values.get("consumer.heartbeat.interval.ms")
        )

    def _check_enabled(self) -> None:
        if PROTOCOL not in self._coordinator.config["group.coordinator.rebalance.protocols"]:
            raise UnsupportedVersionError

    def _load(self, group_id: str, loaded: object, now: Moment) -> Membership:
        assert isinstance(loaded, ConsumerGroup)
        membership = self._membership(loaded)
        membership.resume(now)
        return membership


def _is_empty(classic: ClassicGroup) -> bool:
    """Return whether no member has joined. Ids that were given out do not count: their clients may never come back."""
    return classic.state is ClassicGroupState.EMPTY


def _read(loading: Replay, key: bytes, value: bytes | None) -> None:
    """Read a record of a group of the consumer protocol."""
    try:
        record = decode_record(key, value)
    except ProtocolError as error:
        raise UnreadableRecordError(str(error)) from error
    assert record is not None
    group = loading.others.get(record.group_id)
    if group is None:
        if record.value is None:
            return
        group = loading.others[record.group_id] = ConsumerGroup(record.group_id)
    assert isinstance(group, ConsumerGroup)
    group.replay(record)
    if group.is_gone:
        del loading.others[record.group_id]


async def _ask(sees: Callable[[str], bool] | None, topics: Iterable[str]) -> None:
    """Ask ahead for the rights on topics, with turns of others in between: the answers are remembered."""
    if sees is None:
        return
    for number, topic in enumerate(topics):
        sees(topic)
        if number % ASKED_AT_ONCE == ASKED_AT_ONCE - 1:
            await asyncio.sleep(0)

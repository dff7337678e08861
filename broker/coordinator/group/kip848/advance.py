"""A member's change and its consequences: subscriptions, group epoch, target assignment, a step of the member.

The steps are those of KIP-848, and the order of the records is Apache Kafka's (`GroupMetadataManager`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.coordinator.group.kip848.assignors import ASSIGNORS, AssignorError, GroupSpec, MemberSpec
from broker.coordinator.group.kip848.context import Context, Matched, Timer, TimerKind
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup, all_subscribed_names, subscribed_names
from broker.coordinator.group.kip848.model import (
    NO_PARTITIONS,
    Assignment,
    Member,
    MemberState,
    ResolvedRegex,
    TopicMetadata,
)
from broker.coordinator.group.kip848.reconcile import next_step
from kafkalog.protocol.errors import CoordinatorNotAvailableError, InvalidRegularExpressionError, UnknownServerError


@dataclass(slots=True)
class Advance:
    """The member after the change, with its records and timers."""

    member: Member
    records: list[GroupRecord] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    seen_version: int | None = None


def advance(
    group: ConsumerGroup,
    old: Member,
    new: Member,
    owned: Assignment | None,
    context: Context,
    records: list[GroupRecord],
) -> Advance:
    """Change the member `old` to `new`, and advance it.

    Args:
        old: the member before; for a member that joins, its initial state.
        owned: the partitions that the member says it owns, or None.
        records: earlier records of the same batch.

    Raises:
        InvalidRegularExpressionError: the expression is refused.
        FencedMemberEpochError: a newer release left the member in a state unknown here; it must join again.
        UnknownServerError: the assignor failed.
    """
    result = Advance(new, records)
    if new != old:
        records.append(group_records.member_metadata(group.group_id, new))
    target_epoch, target = group.assignment_epoch, group.target_of(new.member_id, new.instance_id)
    if new != old or group.group_epoch > target_epoch or _is_stale(group, context):
        members = members_with(group, new)
        bump = group.group_epoch <= 0 or new.topic_names != old.topic_names
        regexes, changed = _resolve(group, old, new, members, context, records)
        bump = bump or changed
        epoch = group.group_epoch
        topics: Mapping[str, TopicMetadata] = group.topics
        if bump or group.seen_version != context.topics.version:
            epoch, topics = refresh(group, members, regexes, bump, context, records)
            result.seen_version = context.topics.version
        if epoch > target_epoch:
            target = _assign(group, new, members, regexes, topics, epoch, context, records)
            target_epoch = epoch
    if not new.is_reconciled_to(target_epoch):
        result.member = next_step(new, target_epoch, target, owned, group.is_owned)
        if result.member != new:
            records.append(group_records.current_assignment(group.group_id, result.member))
            if result.member.classic is None:
                result.timers.append(_rebalance_timer(result.member))
    return result


def _is_stale(group: ConsumerGroup, context: Context) -> bool:
    """Return whether the topics changed since the group was compared with them."""
    version = context.topics.version
    return group.seen_version != version or any(regex.version != version for regex in group.regexes.values())


def members_with(group: ConsumerGroup, new: Member) -> dict[str, Member]:
    """Return the group's members including `new`; a static member replaces its predecessor."""
    members = dict(group.members)
    if new.instance_id is not None:
        members.pop(group.static_members.get(new.instance_id, ""), None)
    members[new.member_id] = new
    return members


def refresh(
    group: ConsumerGroup,
    members: Mapping[str, Member],
    regexes: Mapping[str, ResolvedRegex],
    bump: bool,
    context: Context,
    records: list[GroupRecord],
) -> tuple[int, Mapping[str, TopicMetadata]]:
    """Compare the topics to which `members` are subscribed with the group's; return its epoch and topics afterwards.

    The epoch is increased if `bump` is set or if the topics have changed.
    """
    topics = subscribed_topics(members.values(), regexes, context)
    if topics != group.topics:
        records.append(group_records.subscription_metadata(group.group_id, topics))
        bump = True
    epoch = group.group_epoch
    if bump:
        # The epoch of a group that is created again continues after its tombstone's.
        epoch = max(epoch, 0) + 1
        records.append(group_records.group_epoch(group.group_id, epoch))
    return epoch, topics


def subscribed_topics(
    members: Collection[Member], regexes: Mapping[str, ResolvedRegex], context: Context
) -> dict[str, TopicMetadata]:
    """Return the existing topics that these members are subscribed to, by name."""
    return context.topics.existing(all_subscribed_names(members, regexes))


def dropped_regexes(group: ConsumerGroup, members: Iterable[Member]) -> list[str]:
    """Return the group's regular expressions that none of these members has."""
    used = {member.topic_regex for member in members}
    return [regex for regex in group.regexes if regex not in used]


def stale_regexes(regexes: Mapping[str, ResolvedRegex], context: Context) -> list[str]:
    """Return the regular expressions to match again, because the topics have changed and enough time has passed."""
    last = max((resolved.timestamp_ms for resolved in regexes.values()), default=0)
    if last <= context.now_ms < last + context.config.regex_refresh_ms:
        return []
    version = context.topics.version
    return [regex for regex, resolved in regexes.items() if resolved.version != version]


def matched_anew(regex: str, resolved: ResolvedRegex, context: Context) -> Matched | None:
    """Return the newer matches of a stale expression, or None while it has not been matched again."""
    version = context.topics.version
    try:
        known = context.topics.matching(regex)
    except InvalidRegularExpressionError:
        # It was accepted for fewer topics, or by another release. This must not fail other members' requests.
        return Matched(resolved.topics, version)
    for matched in (known, context.matched.get(regex)):
        if matched is not None and (matched.version == version or matched.version > resolved.version):
            return matched
    return None


def _resolve(
    group: ConsumerGroup,
    old: Member,
    new: Member,
    members: Mapping[str, Member],
    context: Context,
    records: list[GroupRecord],
) -> tuple[Mapping[str, ResolvedRegex], bool]:
    """Return the group's regular expressions with their current matches, and whether subscriptions changed by that."""
    regexes = dict(group.regexes)
    changed = new.topic_regex != old.topic_regex
    for regex in dropped_regexes(group, members.values()):
        del regexes[regex]
        records.append(group_records.regex_tombstone(group.group_id, regex))
    wanted = stale_regexes(regexes, context)
    if new.topic_regex and new.topic_regex not in regexes:
        wanted.append(new.topic_regex)
    for regex in wanted:
        if regex in regexes:
            matched = matched_anew(regex, regexes[regex], context)
            if matched is None:
                # A later heartbeat takes its matches over.
                continue
        else:
            matched = context.topics.matching(regex)
            if matched is None:
                raise CoordinatorNotAvailableError
        # As in Apache Kafka, the rights of the member count whose request brings the matches.
        topics = context.visible(matched.topics)
        resolved = ResolvedRegex(topics, matched.version, context.now_ms)
        changed = changed or regex not in regexes or regexes[regex].topics != topics
        regexes[regex] = resolved
        records.append(group_records.resolved_regex(group.group_id, regex, resolved))
    return regexes, changed


def _assign(
    group: ConsumerGroup,
    new: Member,
    members: Mapping[str, Member],
    regexes: Mapping[str, ResolvedRegex],
    topics: Mapping[str, TopicMetadata],
    epoch: int,
    context: Context,
    records: list[GroupRecord],
) -> Assignment:
    """Compute the target assignment of `epoch`; return the target of `new`."""
    ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}

    def subscribed_ids(member: Member) -> frozenset[UUID]:
        # Most members have the same subscription: assignors compare their topics quickly if those are one object.
        subscription = member.topic_names, member.topic_regex
        found = ids.get(subscription)
        if found is None:
            names = subscribed_names(member, regexes) & topics.keys()
            found = ids[subscription] = frozenset(topics[name].topic_id for name in names)
        return found

    specs = {
        member_id: MemberSpec(
            subscribed_ids(member),
            member.instance_id,
            group.target_of(new.member_id, new.instance_id)
            if member_id == new.member_id
            else group.target.get(member_id, NO_PARTITIONS),
        )
        for member_id, member in members.items()
    }
    spec = GroupSpec(specs, {topic.topic_id: topic.partitions for topic in topics.values()})
    try:
        targets = ASSIGNORS[preferred_assignor(members.values(), context)](spec)
    except AssignorError as error:
        raise UnknownServerError(f"Failed to compute a new target assignment for epoch {epoch}: {error}") from error
    records += [
        group_records.target_assignment(group.group_id, member_id, targets[member_id])
        for member_id in sorted(targets)
        if targets[member_id] != group.target.get(member_id)
    ]
    records.append(group_records.target_epoch(group.group_id, epoch))
    return targets[new.member_id]


def preferred_assignor(members: Iterable[Member], context: Context) -> str:
    """Return the assignor that most members ask for, or the default."""
    votes = dict.fromkeys(context.config.assignors, 0)
    for member in members:
        if member.server_assignor in votes:
            votes[member.server_assignor] += 1
    # With equally many votes, `max` returns the first of them; the default is the first of all.
    return max(votes, key=lambda name: votes[name])


def _rebalance_timer(member: Member) -> Timer:
    waits = member.state is MemberState.UNREVOKED_PARTITIONS
    return Timer(
        TimerKind.REBALANCE, member.member_id, member.rebalance_timeout_ms if waits else None, epoch=member.epoch
    )

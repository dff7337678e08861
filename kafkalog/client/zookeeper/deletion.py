"""Delete what ZooKeeper holds of groups without members, as steps.

Groups with members are refused. A member may start at any time, so the node of the members is deleted first: that
fails where it has children. A node of an owner that lives is never deleted.

Source: `deleteConsumerGroupInZK` and its neighbours in `AdminUtils` of Kafka 1.1. Two things differ. A topic that the
group does not have is an error. And owners and offsets together decide which topic is a group's last one. Kafka looks
at the owners alone, and so loses the offsets of topics that have no owner at present.
"""

from __future__ import annotations

from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.groups import list_groups
from kafkalog.client.zookeeper.steps import (
    Children,
    NoNodeError,
    NotEmptyError,
    Read,
    Steps,
    Write,
    WriteError,
    ZooKeeperError,
    delete_tree,
)
from kafkalog.zookeeper.values import NO_OWNER, Delete


class GroupMissingError(ZooKeeperError):
    """There is no such group in ZooKeeper."""


class GroupActiveError(ZooKeeperError):
    """The group has members."""


class GroupTopicMissingError(ZooKeeperError):
    """The group has neither offsets nor owners of the topic."""


def delete_group(group: str) -> Steps[None]:
    """Delete a group.

    Raises:
        GroupMissingError: There is none of that name.
        GroupActiveError: It has members.
    """
    yield from _see(group)
    yield from _delete_empty(nodes.members(group), group)
    for topic in (yield Children(nodes.all_owners(group))) or ():
        yield from _delete_owners(group, topic)
    yield from _delete_empty(nodes.all_owners(group), group)
    while (names := (yield Children(nodes.group(group)))) is not None:
        paths = {f"{nodes.group(group)}/{name}" for name in names}
        # These two are there again if a member has started.
        if paths & {nodes.members(group), nodes.all_owners(group)}:
            raise GroupActiveError(f"group {group} has members")
        for path in paths:
            yield from delete_tree(path)
        try:
            yield Write([Delete(nodes.group(group))])
        except WriteError as error:
            # Not empty: somebody has reset its offsets meanwhile, or a member has started.
            if not isinstance(error.reason, NotEmptyError | NoNodeError):
                raise


def delete_topic(group: str, topic: str) -> Steps[None]:
    """Delete the offsets and owners of a topic of a group; delete the group if it has no other topic.

    Raises:
        GroupMissingError, GroupActiveError: As `delete_group`.
        GroupTopicMissingError: The group does not have the topic.
    """
    yield from _see(group)
    topics = yield from _topics(group)
    if topic not in topics:
        raise GroupTopicMissingError(f"group {group} has no topic {topic}")
    if topics == {topic}:
        yield from delete_group(group)
        return
    if (yield Children(nodes.members(group))):
        raise GroupActiveError(f"group {group} has members")
    yield from _delete_owners(group, topic)
    yield from delete_tree(f"{nodes.group_offsets(group)}/{topic}")


def delete_topic_of_all(topic: str) -> Steps[list[str]]:
    """Delete a topic of each group that has it and has no members; return the groups with members, sorted."""
    active = []
    for group in (yield from list_groups()):
        try:
            yield from delete_topic(group, topic)
        except GroupActiveError:
            active.append(group)
        except (GroupMissingError, GroupTopicMissingError):
            continue
    return active


def _see(group: str) -> Steps[None]:
    # A look at the names, because a name with a slash is the path of another node.
    if group not in ((yield Children(nodes.CONSUMERS)) or ()):
        raise GroupMissingError(f"there is no group {group} in ZooKeeper")


def _topics(group: str) -> Steps[set[str]]:
    owned = (yield Children(nodes.all_owners(group))) or ()
    committed = (yield Children(nodes.group_offsets(group))) or ()
    return {*owned, *committed}


def _delete_owners(group: str, topic: str) -> Steps[None]:
    """Delete the nodes of a topic's owners, of which none may be of a session that lives."""
    path = nodes.owners(group, topic)
    for name in (yield Children(path)) or ():
        node = yield Read(f"{path}/{name}")
        if node is not None and node.stat.owner != NO_OWNER:
            raise GroupActiveError(f"group {group} has members: {path}/{name} is owned")
        yield from delete_tree(f"{path}/{name}")
    yield from _delete_empty(path, group)


def _delete_empty(path: str, group: str) -> Steps[None]:
    """Delete a node that has children only while the group has members; do nothing where there is none."""
    try:
        yield Write([Delete(path)])
    except WriteError as error:
        if isinstance(error.reason, NotEmptyError):
            raise GroupActiveError(f"group {group} has members: {path} is not empty") from None
        if not isinstance(error.reason, NoNodeError):
            raise

"""The stores of a group's offsets and members: the brokers, or ZooKeeper. `reset-offsets` works with both."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalog.cli.admin.groups.common import Selected, open_zookeeper, selected, selected_in_zookeeper

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.types import TopicPartition
    from kafkalog.client.zookeeper.session import ZooKeeperSession

    Offsets: TypeAlias = Mapping[TopicPartition, int]


class GroupStore(Protocol):
    """The committed offsets of groups."""

    def selected(self) -> Selected:
        """Return the groups that the options name."""

    def active(self, groups: Sequence[str]) -> dict[str, str]:
        """Return those of the groups that have members, or may have some, each with what it is instead of inactive."""

    def committed(self, group: str) -> Offsets:
        """Return the offsets of a group; none where there is no such group."""

    def commit(self, group: str, offsets: Offsets) -> None:
        """Commit offsets."""


class BrokerStore:
    """Groups that brokers coordinate."""

    def __init__(self, admin: GroupAdmin, arguments: argparse.Namespace) -> None:
        self._admin = admin
        self._arguments = arguments

    def selected(self) -> Selected:
        return selected(self._admin, self._arguments)

    def active(self, groups: Sequence[str]) -> dict[str, str]:
        """Do as the protocol says.

        Raises:
            Exception: The state of no group is known. This is the error of the first one.
        """
        from kafkalog.client.admin.groups.descriptions import DEAD, EMPTY

        described = self._admin.describe_groups_each(groups)
        errors = [each for each in described.values() if isinstance(each, Exception)]
        if errors and len(errors) == len(described):
            raise errors[0]
        found = {}
        for name, group in described.items():
            if isinstance(group, Exception):
                found[name] = f"the current state is not known: {getattr(group, 'message', group)}"
            elif group.state not in (EMPTY, DEAD):
                found[name] = f"the current state is {group.state}."
        return found

    def committed(self, group: str) -> Offsets:
        return {tp: each.offset for tp, each in self._admin.offsets([group])[group].items()}

    def commit(self, group: str, offsets: Offsets) -> None:
        self._admin.alter_offsets(group, offsets)


class ZooKeeperStore:
    """Groups of Kafka 0.8."""

    def __init__(self, session: ZooKeeperSession, arguments: argparse.Namespace) -> None:
        self._session = session
        self._arguments = arguments

    def selected(self) -> Selected:
        """Do as the protocol says.

        Raises:
            ConfigError: The name of a group cannot be part of a path.
        """
        from kafkalog.client.zookeeper.nodes import check_group

        return Selected([check_group(name) for name in selected_in_zookeeper(self._session, self._arguments)])

    def active(self, groups: Sequence[str]) -> dict[str, str]:
        from kafkalog.client.zookeeper import nodes
        from kafkalog.client.zookeeper.steps import Children

        members = {name: self._session.perform(Children(nodes.members(name))) for name in groups}
        return {name: f"it has the members {', '.join(sorted(found))}." for name, found in members.items() if found}

    def committed(self, group: str) -> Offsets:
        from kafkalog.client.zookeeper.groups import read_group

        found = self._session.run(read_group(group))
        return {} if found is None else found.offsets

    def commit(self, group: str, offsets: Offsets) -> None:
        from kafkalog.client.connector.offset_stores import write_offsets

        self._session.run(write_offsets(group, offsets))


@contextmanager
def open_store(admin: GroupAdmin, arguments: argparse.Namespace) -> Iterator[GroupStore]:
    """Open the store that the options name.

    Raises:
        ConnectionLossError: ZooKeeper does not answer.
    """
    if arguments.zookeeper is None:
        yield BrokerStore(admin, arguments)
        return
    with open_zookeeper(arguments) as session:
        yield ZooKeeperStore(session, arguments)

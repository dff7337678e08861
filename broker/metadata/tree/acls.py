"""Access control entries in ZooKeeper: reads, writes and follows them, as Kafka's `AclAuthorizer` does.

A pattern's entries are one node. It is written on condition that it has not changed since it was read; the notice for
the other brokers is a part of the same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from broker.metadata.tree.notices import NoticeKind, Notices
from broker.metadata.tree.session import LOST, OVERHEAD, Session, each_of
from broker.metadata.znodes import acls
from broker.metadata.znodes.json_node import ZnodeError
from broker.security.authorizer.model import UNREADABLE, Acls, Entries, ResourcePattern
from broker.zookeeper.interface import (
    BadVersionError,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from kafkalog.protocol.acls import AclPatternType, AclResourceType

logger = logging.getLogger(__name__)

ABSENT = -1
"""The version of a node that does not exist."""
_CHANGED = (BadVersionError, NodeExistsError, NoNodeError)
_KINDS = tuple(
    NoticeKind(acls.CHANGES[kind], acls.decode_change, f"ACLs ({kind.title})", blind_s=0.0, is_strict=True)
    for kind in acls.ROOTS
)
"""Everything is read again after each lost connection, and each notice that cannot be read: a right that was taken away
must not stay in force."""


@dataclass(frozen=True, slots=True)
class AclNode:
    """A pattern's node as it was read."""

    entries: Entries = frozenset()
    """Its entries; UNREADABLE if it is damaged."""
    version: int = ABSENT
    is_damaged: bool = False
    """True if it cannot be understood."""


Taken = Callable[[Mapping[ResourcePattern, Entries]], None]
"""Takes what was read: patterns without entries do not exist."""


class AclTree:
    """The entries of a cluster. Used on the event loop's thread only.

    Args:
        session: the session with ZooKeeper.
        now_ms: the wall clock.
        known: returns the entries that this broker knows.
        taken: called with what was read.
    """

    def __init__(self, session: Session, now_ms: Callable[[], int], known: Callable[[], Acls], taken: Taken) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._known = known
        self._taken = taken
        self._reads = 0
        self._read_by: dict[ResourcePattern, int] = {}
        """The number of the read that brought a pattern's entries."""
        self._notices = [
            Notices(kind, session, now_ms, self.read, self._reader(pattern_type))
            for kind, pattern_type in zip(_KINDS, acls.ROOTS, strict=True)
        ]

    async def start(self) -> None:
        """Read all entries, and begin to follow their changes.

        Raises:
            OSError: there was no connection for too long.
        """
        for kind in AclResourceType:
            if kind > AclResourceType.ANY:
                # As Kafka's brokers do.
                await self._session.ensure(acls.type_path(AclPatternType.LITERAL, kind))
        for each in self._notices:
            await each.start()

    async def stop(self) -> None:
        """Stop following changes."""
        for each in self._notices:
            await each.stop()

    # -- reading

    def _reader(self, pattern_type: AclPatternType) -> Callable[[], Awaitable[None]]:
        async def read_all() -> None:
            number = self._next_read()
            names = await pattern_names(self._session, pattern_type)
            nodes = await each_of(names, partial(read_node, self._session))
            found = {pattern: node.entries for pattern, node in zip(names, nodes, strict=True)}
            gone = {each for each in self._known() if each.pattern_type is pattern_type} - found.keys()
            self._learn(number, {**found, **dict.fromkeys(gone, frozenset())})

        return read_all

    async def read(self, patterns: Iterable[ResourcePattern]) -> None:
        """Read the entries of some patterns again.

        Raises:
            OSError: there was no connection for too long.
        """
        number, wanted = self._next_read(), list(patterns)
        nodes = await each_of(wanted, partial(read_node, self._session))
        self._learn(number, {pattern: node.entries for pattern, node in zip(wanted, nodes, strict=True)})

    def _next_read(self) -> int:
        self._reads += 1
        return self._reads

    def _learn(self, number: int, found: Mapping[ResourcePattern, Entries]) -> None:
        """Take what was read. ZooKeeper answers in the order of the requests: what a later read has found is newer."""
        newer = {pattern: each for pattern, each in found.items() if number >= self._read_by.get(pattern, 0)}
        known = self._known()
        for pattern in newer:
            self._read_by[pattern] = number
        changed = {pattern: entries for pattern, entries in newer.items() if entries != known.get(pattern, frozenset())}
        if changed:
            self._taken(changed)

    # -- writing

    async def write(self, wanted: Mapping[ResourcePattern, Entries], known: Mapping[ResourcePattern, Entries]) -> bool:
        """Replace the entries of patterns, and learn what the nodes have then.

        Args:
            wanted: the entries by pattern.
            known: the entries that it was decided on.

        Returns:
            Whether they are written. They are not, or not all, if one of the nodes has other entries.

        Raises:
            PolicyViolationError: a node would be too large for ZooKeeper.
            OSError: there is no connection for too long, or a node is damaged.
        """
        try:
            return await self._write(wanted, known)
        finally:
            await self.read(wanted)

    async def _write(self, wanted: Mapping[ResourcePattern, Entries], known: Mapping[ResourcePattern, Entries]) -> bool:
        patterns = list(wanted)
        present = dict(zip(patterns, await each_of(patterns, partial(read_node, self._session)), strict=True))
        for pattern, node in present.items():
            if node.entries != known[pattern]:
                return False
            if node.is_damaged and wanted[pattern]:
                raise OSError(
                    f"the node {acls.path(pattern)} in ZooKeeper is damaged: delete all ACLs of {pattern} first"
                )
        changed = {pattern: entries for pattern, entries in wanted.items() if entries != present[pattern].entries}
        for some in self._pieces(changed):
            if not await self._write_some(some, present):
                return False
        return True

    def _pieces(self, changed: Mapping[ResourcePattern, Entries]) -> list[dict[ResourcePattern, bytes]]:
        """Return the data of nodes, in parts that ZooKeeper takes in one request each; a node to delete has none."""
        pieces: list[dict[ResourcePattern, bytes]] = []
        room = 0
        for pattern, entries in changed.items():
            data = acls.encode(entries) if entries else b""
            self._session.check_size(acls.path(pattern), data)
            size = len(data) + 4 * len(pattern.name.encode()) + OVERHEAD
            if size > room:
                pieces.append({})
                room = self._session.max_bytes - OVERHEAD
            pieces[-1][pattern] = data
            room -= size
        return pieces

    async def _write_some(
        self, data: Mapping[ResourcePattern, bytes], present: Mapping[ResourcePattern, AclNode]
    ) -> bool:
        """Write some nodes and their notices as one; return False if it is not certain that this was done."""
        writes = [_write_of(pattern, each, present[pattern].version) for pattern, each in data.items()]
        notices: list[Operation] = [
            Create(acls.change_prefix(pattern.pattern_type), acls.encode_change(pattern), is_sequential=True)
            for pattern in data
        ]
        while True:
            try:
                await self._zookeeper.multi([*writes, *notices])
                return True
            except MultiError as error:
                at = error.index
                if isinstance(error.reason, NoNodeError) and at >= len(writes):
                    for path in acls.CHANGES.values():
                        await self._session.ensure(path)
                elif isinstance(error.reason, NoNodeError) and isinstance(writes[at], Create):
                    await self._session.ensure(writes[at].path.rpartition("/")[0])
                elif isinstance(error.reason, _CHANGED):
                    return False
                else:
                    raise error.reason from error
            except LOST:
                # It may have been carried out, as a whole. What is there now is read, and decided on again.
                await self._session.connected()
                return False


def _write_of(pattern: ResourcePattern, data: bytes, version: int) -> Operation:
    path = acls.path(pattern)
    if not data:
        return Delete(path, version)
    return Create(path, data) if version == ABSENT else SetData(path, data, version)


async def read_node(session: Session, pattern: ResourcePattern) -> AclNode:
    """Read the entries of a pattern. A damaged node is named in the broker's log.

    Raises:
        OSError: there was no connection for too long.
    """
    path = acls.path(pattern)
    node = await session.read(partial(session.zookeeper.get, path))
    if node is None:
        return AclNode()
    try:
        return AclNode(acls.decode(path, node.data), node.stat.version)
    except ZnodeError as error:
        logger.error("%s. Until it is corrected, only super users may do anything with %s", error, pattern)
        return AclNode(UNREADABLE, node.stat.version, is_damaged=True)


async def pattern_names(session: Session, pattern_type: AclPatternType) -> list[ResourcePattern]:
    """Return all patterns of a type that have nodes.

    Raises:
        OSError: there was no connection for too long.
    """
    found: list[ResourcePattern] = []
    root = acls.ROOTS[pattern_type]
    for title in await _children(session, root):
        try:
            kind = acls.code_of(AclResourceType, title)
        except ValueError:
            logger.warning("ACLs in ZooKeeper of the unknown type %s are left out", title)
            continue
        found += [ResourcePattern(kind, pattern_type, name) for name in await _children(session, f"{root}/{title}")]
    return found


async def read_acls(session: Session) -> dict[ResourcePattern, Entries]:
    """Read the entries of all patterns.

    Raises:
        OSError: there was no connection for too long.
        ZnodeError: a node is damaged.
    """
    found: dict[ResourcePattern, Entries] = {}
    for pattern_type in acls.ROOTS:
        names = await pattern_names(session, pattern_type)
        for pattern, node in zip(names, await each_of(names, partial(read_node, session)), strict=True):
            if node.is_damaged:
                raise ZnodeError(f"The node {acls.path(pattern)} in ZooKeeper cannot be read: correct or delete it")
            if node.entries:
                found[pattern] = node.entries
    return found


async def _children(session: Session, path: str) -> list[str]:
    try:
        return await session.read(partial(session.zookeeper.children, path))
    except NoNodeError:
        return []

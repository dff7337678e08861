"""Delegation tokens in ZooKeeper: reads, writes and follows them, as Kafka's `DelegationTokenManagerZk` does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from broker.metadata.tree.notices import NoticeKind, Notices
from broker.metadata.tree.session import LOST, Session, each_of
from broker.metadata.znodes.json_node import ZnodeError, read, write
from broker.security.tokens import MAX_ID, Token, of_content
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

logger = logging.getLogger(__name__)

ROOT = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_PREFIX = f"{CHANGES}/token_change_"
ABSENT = -1
_CHANGED = (BadVersionError, NodeExistsError, NoNodeError)


def decode_change(path: str, data: bytes) -> str:
    """Return the id of the token that a notice names.

    Raises:
        ZnodeError: it names none.
    """
    try:
        token_id = data.decode()
    except UnicodeDecodeError:
        token_id = ""
    if not token_id or len(token_id) > MAX_ID or "/" in token_id:
        raise ZnodeError(f"The node {path} in ZooKeeper names no delegation token")
    return token_id


_KIND = NoticeKind(CHANGES, decode_change, "delegation tokens", blind_s=0.0)
"""Everything is read again after each lost connection: a token that was ended must not stay in force."""

Taken = Callable[[Mapping[str, Token | None]], None]
"""Takes what was read; None for tokens that do not exist."""


class TokenTree:
    """The tokens of a cluster. Used on the event loop's thread only.

    Args:
        session: the session with ZooKeeper.
        now_ms: the wall clock.
        known: returns the tokens that this broker knows.
        taken: called with what was read and is new.
    """

    def __init__(
        self, session: Session, now_ms: Callable[[], int], known: Callable[[], Mapping[str, Token]], taken: Taken
    ) -> None:
        self._session = session
        self._zookeeper = session.zookeeper
        self._known = known
        self._taken = taken
        self._reads = 0
        self._read_by: dict[str, int] = {}
        """The number of the read that brought a token."""
        self._notices = Notices(_KIND, session, now_ms, self.read, self._read_all)

    async def start(self) -> None:
        """Read all tokens, and begin to follow their changes.

        Raises:
            OSError: there was no connection for too long.
        """
        for path in (ROOT, CHANGES):
            await self._session.ensure(path)
        await self._notices.start()

    async def stop(self) -> None:
        """Stop following changes."""
        await self._notices.stop()

    async def _read_all(self) -> None:
        names = await self._session.read(partial(self._zookeeper.children, ROOT))
        await self.read([*names, *(name for name in self._known() if name not in set(names))])

    async def read(self, names: Iterable[str]) -> None:
        """Read some tokens again. ZooKeeper answers in the order of the requests: what a later read finds is newer.

        Raises:
            OSError: there was no connection for too long.
        """
        self._reads += 1
        number, wanted = self._reads, list(dict.fromkeys(names))
        found = dict(zip(wanted, await each_of(wanted, self._read), strict=True))
        known = self._known()
        changed: dict[str, Token | None] = {}
        for name, (token, _) in found.items():
            if number < self._read_by.get(name, 0):
                continue
            self._read_by[name] = number
            if token is None:
                del self._read_by[name]
            if known.get(name) != token:
                changed[name] = token
        if changed:
            self._taken(changed)

    async def _read(self, name: str) -> tuple[Token | None, int]:
        """Return a token and the version of its node. A damaged one is named in the log, and lets nobody in."""
        path = f"{ROOT}/{name}"
        node = await self._session.read(partial(self._zookeeper.get, path))
        if node is None:
            return None, ABSENT
        try:
            token = read(path, node.data, of_content)
            if token.token_id != name:
                raise ZnodeError(f"The node {path} in ZooKeeper has the token of another id")
        except ZnodeError as error:
            logger.error("%s. Nobody can log in by it", error)
            return None, node.stat.version
        return token, node.stat.version

    async def write(self, wanted: Mapping[str, Token | None], known: Mapping[str, Token]) -> bool:
        """Write tokens, or delete those that are None, and learn what the nodes have then.

        Returns:
            Whether they are written; not if one of them is another than the known one.

        Raises:
            PolicyViolationError: a node would be too large for ZooKeeper.
            OSError: there is no connection for too long.
        """
        try:
            for name, token in wanted.items():
                if not await self._write(name, token, known.get(name)):
                    return False
            return True
        finally:
            await self.read(wanted)

    async def _write(self, name: str, token: Token | None, known: Token | None) -> bool:
        found, version = await self._read(name)
        if found != known:
            return False
        path = f"{ROOT}/{name}"
        operation: Operation
        if token is None:
            if version == ABSENT:
                return True
            operation = Delete(path, version)
        else:
            data = write(token.content())
            self._session.check_size(path, data)
            operation = Create(path, data) if version == ABSENT else SetData(path, data, version)
        try:
            await self._zookeeper.multi([operation, Create(CHANGE_PREFIX, name.encode(), is_sequential=True)])
        except MultiError as error:
            if isinstance(error.reason, _CHANGED):
                return False
            raise error.reason from error
        except LOST:
            # It may have been carried out. What is there now is read, and decided on again.
            await self._session.connected()
            return False
        return True

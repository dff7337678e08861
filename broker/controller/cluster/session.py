"""Carries out the effects of decisions on ZooKeeper, for as long as one controller is in office.

Every write names the version of `/controller_epoch` that the controller's election has set. When another controller has
been elected, that write fails, and so does everything that follows from it: `ControllerMovedError`.

Reads and writes are sent many at a time. Groups of operations are put together into requests of some hundred
operations, with one check of the epoch each. Where one of them fails, its groups are sent one by one.

When the connection is lost, requests without an answer are sent again over the next one. ZooKeeper may have carried
them out the first time. So a group that fails then is compared with the nodes as they are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from broker.controller.cluster.model.effects import Outcome
from broker.metadata.tree.session import MAX_BYTES
from broker.metadata.znodes import paths
from broker.zookeeper.interface import (
    Check,
    ConnectionLossError,
    Create,
    Delete,
    MultiError,
    Node,
    NoNodeError,
    Operation,
    Result,
    SessionExpiredError,
    SessionState,
    SetData,
    Watch,
    ZooKeeper,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")
MOST_OPERATIONS = 500
"""The number of operations of one request."""
MOST_BYTES = 500_000
"""The size of one request, unless a single group of operations is larger."""
OVERHEAD = 64
"""Bytes of an operation beside its path and its data, at most."""
AT_ONCE = 1000
"""The number of requests that await their answers."""
RETRY_S = 0.05
"""The pause before something is sent again."""


class TermEndedError(Exception):
    """The controller is not in office any more; its decisions are abandoned."""


class ControllerMovedError(TermEndedError):
    """Another controller has been elected."""


class SessionEndedError(TermEndedError):
    """The session with ZooKeeper has expired, or the controller stops."""


class Connection:
    """The state of the session with ZooKeeper, for those who wait for it."""

    def __init__(self) -> None:
        self._is_connected = asyncio.Event()
        self._is_connected.set()
        self.number = 0
        """The number of sessions that have ended."""

    def changed(self, state: SessionState) -> None:
        """Take note of a change of the session: a listener."""
        if state is SessionState.CONNECTED:
            self._is_connected.set()
        else:
            self._is_connected.clear()
        if state is SessionState.EXPIRED:
            self.end()

    def end(self) -> None:
        """Wake all that wait: what they wait for belongs to a session that has ended."""
        self.number += 1
        # Who waits looks at the number.
        self._is_connected.set()
        self._is_connected.clear()

    async def again(self, number: int) -> None:
        """Wait until a request that was lost can be sent again.

        Raises:
            SessionEndedError: The session with this number has ended.
        """
        await asyncio.sleep(RETRY_S)
        self.check(number)
        await self._is_connected.wait()
        self.check(number)

    def check(self, number: int) -> None:
        """Look whether a session still goes on.

        Raises:
            SessionEndedError: The session with this number has ended.
        """
        if number != self.number:
            raise SessionEndedError("the session with ZooKeeper has ended")


async def lasting(connection: Connection, number: int, call: Callable[[], Awaitable[T]]) -> T:
    """Call until there is an answer, over losses of the connection.

    Raises:
        SessionEndedError: The session has ended.
    """
    while True:
        connection.check(number)
        try:
            result = await call()
        except ConnectionLossError:
            await connection.again(number)
        except SessionExpiredError as error:
            raise SessionEndedError(str(error)) from error
        else:
            connection.check(number)
            return result


class Term:
    """One controller's time in office.

    Args:
        zookeeper: The session.
        connection: The state of the session.
        epoch_version: The version of `/controller_epoch` since the election.
    """

    def __init__(self, zookeeper: ZooKeeper, connection: Connection, epoch_version: int) -> None:
        self._zookeeper = zookeeper
        self._connection = connection
        self._number = connection.number
        self._check = Check(paths.CONTROLLER_EPOCH, epoch_version)

    async def read(self, nodes: Sequence[str], watch: Callable[[str], Watch | None]) -> list[Node | None]:
        """Read nodes; `watch` returns the watch to set on each of them."""

        async def one(path: str) -> Node | None:
            return await self._lasting(lambda: self._zookeeper.get(path, watch(path)))

        return await self._all(one, nodes)

    async def children(self, nodes: Sequence[str], watch: Callable[[str], Watch | None]) -> list[list[str]]:
        """List the children of nodes; none where there is no such node."""

        async def one(path: str) -> list[str]:
            try:
                return await self._lasting(lambda: self._zookeeper.children(path, watch(path)))
            except NoNodeError:
                return []

        return await self._all(one, nodes)

    async def write(self, groups: Sequence[Sequence[Operation]]) -> list[Outcome]:
        """Carry out groups of operations; see `effects.Write`.

        Raises:
            ControllerMovedError: Another controller has been elected; some groups may have been carried out before.
        """
        packed = await self._all(self._packed, list(packs(groups)))
        return [outcome for outcomes in packed for outcome in outcomes]

    # Inside

    async def _lasting(self, call: Callable[[], Awaitable[T]]) -> T:
        return await lasting(self._connection, self._number, call)

    async def _all(self, one: Callable[[S], Coroutine[Any, Any, T]], many: Sequence[S]) -> list[T]:
        found: list[T] = []
        for start in range(0, len(many), AT_ONCE):
            found += await _gathered([one(each) for each in many[start : start + AT_ONCE]])
        return found

    async def _packed(self, pack: Sequence[Sequence[Operation]]) -> list[Outcome]:
        """Carry out groups in one request, or one by one where a group fails."""
        if len(pack) == 1:
            return [await self._alone(pack[0])]
        try:
            results = await self._zookeeper.multi([self._check, *(each for group in pack for each in group)])
        except ConnectionLossError:
            await self._connection.again(self._number)
            return await _gathered([self._alone(group, is_repeated=True) for group in pack])
        except SessionExpiredError as error:
            raise SessionEndedError(str(error)) from error
        except MultiError as error:
            self._check_moved(error)
            return await _gathered([self._alone(group) for group in pack])
        self._connection.check(self._number)
        return _split(results[1:], pack)

    async def _alone(self, group: Sequence[Operation], *, is_repeated: bool = False) -> Outcome:
        size = _size([self._check, *group])
        if size > MAX_BYTES:
            # ZooKeeper closes the connection instead of an answer, each time.
            nodes = ", ".join(each.path for each in group[:3])
            return ZooKeeperError(
                f"A request to change {nodes} would have {size} bytes. ZooKeeper takes {MAX_BYTES} (jute.maxbuffer)"
            )
        while True:
            self._connection.check(self._number)
            try:
                return (await self._zookeeper.multi([self._check, *group]))[1:]
            except ConnectionLossError:
                await self._connection.again(self._number)
                is_repeated = True
            except SessionExpiredError as error:
                raise SessionEndedError(str(error)) from error
            except MultiError as error:
                self._check_moved(error)
                done = await self._done_before(group) if is_repeated else None
                return error.reason if done is None else done

    def _check_moved(self, error: MultiError) -> None:
        if error.index == 0:
            raise ControllerMovedError("another controller has been elected") from error

    async def _done_before(self, group: Sequence[Operation]) -> list[Result] | None:
        """Return the results of a group that was carried out when its answer was lost, or None if it was not."""
        results: list[Result] = []
        for each in group:
            path = each.path
            node = await self._lasting(lambda path=path: self._zookeeper.get(path))  # type: ignore[misc]
            match each:
                case Create() if node is not None and node.data == each.data:
                    results.append(path)
                case SetData() if (
                    node is not None
                    and node.data == each.data
                    and (each.version < 0 or node.stat.version == each.version + 1)
                ):
                    results.append(node.stat)
                case Delete() if node is None:
                    results.append(None)
                case Check() if node is not None and node.stat.version == each.version:
                    results.append(None)
                case _:
                    return None
        return results


async def _gathered(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; where some fail, raise the first error when none of them runs any more.

    What they return may be an error, too: that of one group of operations.
    """
    if not calls:
        return []
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise
    failed = [error for task in tasks if (error := task.exception()) is not None]
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]


def packs(groups: Iterable[Sequence[Operation]]) -> Iterable[list[Sequence[Operation]]]:
    """Put groups together that go into one request each, in their order."""
    pack: list[Sequence[Operation]] = []
    operations = size = 0
    for group in groups:
        bytes_of_group = _size(group)
        if pack and (operations + len(group) > MOST_OPERATIONS or size + bytes_of_group > MOST_BYTES):
            yield pack
            pack, operations, size = [], 0, 0
        pack.append(group)
        operations += len(group)
        size += bytes_of_group
    if pack:
        yield pack


def _size(operations: Iterable[Operation]) -> int:
    return sum(len(each.path.encode()) + len(getattr(each, "data", b"")) + OVERHEAD for each in operations)


def _split(results: Sequence[Result], pack: Sequence[Sequence[Operation]]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    at = 0
    for group in pack:
        outcomes.append(list(results[at : at + len(group)]))
        at += len(group)
    return outcomes

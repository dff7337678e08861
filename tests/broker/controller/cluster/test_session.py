"""Writes of a controller: in few requests, fenced, and done once although answers are lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from broker.controller.cluster import session as controller_session
from broker.controller.cluster.candidacy import elect, resign
from broker.controller.cluster.kraft import KraftMigrationError
from broker.controller.cluster.session import Connection, ControllerMovedError, SessionEndedError, Term, packs
from broker.metadata.tree.session import MAX_BYTES
from broker.metadata.znodes import controller, paths
from broker.zookeeper.interface import (
    AccessDeniedError,
    BadVersionError,
    ConnectionLossError,
    Create,
    Delete,
    MultiError,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    Result,
    SessionState,
    SetData,
    Stat,
    Watch,
    ZooKeeperError,
)
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession


class Lossy:
    """A session that loses the answers to the first requests of several operations.

    Attributes:
        losses: how many answers are lost from now on; the requests are carried out.
        refusal: the error of the last operation of each request.
        when_lost: called in place of the next request, which is lost and not carried out.
        requests: the number of operations of each request.
    """

    def __init__(self, ensemble: SimulatedEnsemble) -> None:
        self._session = SimulatedSession(ensemble, 1e9)
        self.losses = 0
        self.refusal: ZooKeeperError | None = None
        self.when_lost: Callable[[], Awaitable[object]] | None = None
        self.requests: list[int] = []
        self.get = self._session.get
        self.children = self._session.children
        self.create = self._session.create
        self.set = self._session.set
        self.delete = self._session.delete
        self.listen = self._session.listen
        self.close = self._session.close

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_timeout(self) -> float:
        return self._session.session_timeout

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        self.requests.append(len(operations))
        if self.refusal is not None:
            raise MultiError(len(operations) - 1, self.refusal)
        if self.when_lost is not None:
            meanwhile, self.when_lost = self.when_lost, None
            await meanwhile()
            raise ConnectionLossError("lost")
        results = await self._session.multi(operations)
        if self.losses:
            self.losses -= 1
            raise ConnectionLossError("lost")
        return results


def no_watch(path: str) -> Watch | None:
    return None


Scenario = Callable[[Lossy, Term, Connection], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main(loop: VirtualLoop) -> None:
        zookeeper, connection = Lossy(SimulatedEnsemble(loop, random.Random(1))), Connection()
        await zookeeper.create(paths.CONTROLLER_EPOCH, b"4")
        await zookeeper.create("/a")
        await scenario(zookeeper, Term(zookeeper, connection, 0), connection)

    virtual_time.run(main)


def test_many_groups_go_in_few_requests() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        outcomes = await term.write([[Create(f"/a/{number}", b"x")] for number in range(1200)])
        assert len(outcomes) == 1200
        assert zookeeper.requests == [501, 501, 201]
        found = await term.read([f"/a/{number}" for number in range(1200)] + ["/none"], no_watch)
        assert [None if node is None else node.data for node in found] == [b"x"] * 1200 + [None]
        assert sorted(map(len, await term.children(["/a", "/none"], no_watch))) == [0, 1200]

    play(scenario)


def test_the_size_of_a_request_is_bounded() -> None:
    group: list[Operation] = [SetData("/a", bytes(200_000))]
    assert [len(pack) for pack in packs([group] * 5)] == [2, 2, 1]
    assert [len(pack) for pack in packs([[SetData("/a", bytes(2 * controller_session.MOST_BYTES))], group])] == [1, 1]


def test_a_group_that_zookeeper_would_not_take_is_refused_and_not_sent() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        large: list[Operation] = [SetData("/a", bytes(MAX_BYTES - 100))]
        outcomes = await term.write([large, [Create("/a/1")]])
        assert type(outcomes[0]) is ZooKeeperError
        assert f"would have {MAX_BYTES + 47} bytes" in str(outcomes[0])
        assert outcomes[1] == ["/a/1"]
        assert zookeeper.requests == [2]

    play(scenario)


def test_a_group_that_fails_harms_no_other() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        outcomes = await term.write(
            [
                [Create("/a/1", b"x")],
                [Create("/a/2"), Create("/none/2")],
                [SetData("/a", b"", 7)],
                [Create("/a/3"), Create("/a/3/4")],
                [Create("/a/1", b"x")],
            ]
        )
        assert outcomes[0] == ["/a/1"]
        assert [type(outcome) for outcome in outcomes[1:3]] == [NoNodeError, BadVersionError]
        assert outcomes[3] == ["/a/3", "/a/3/4"]
        # It is sent again by itself, but it was not done before.
        assert isinstance(outcomes[4], NodeExistsError)
        assert await zookeeper.get("/a/2") is None

    play(scenario)


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_done_when_its_answer_was_lost_is_not_a_failure(count: int) -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        await zookeeper.create("/a/gone")
        zookeeper.losses = count
        groups: list[list[Operation]] = [
            [Create("/a/1", b"x"), Create("/a/1/2", b"y")],
            [SetData("/a", b"new", 0)],
            [Delete("/a/gone")],
        ]
        outcomes = await term.write(groups[:count])
        outcomes += await term.write(groups[count:])
        created, changed, deleted = outcomes
        assert created == ["/a/1", "/a/1/2"]
        assert isinstance(changed, list)
        assert isinstance(changed[0], Stat)
        assert changed[0].version == 1
        assert deleted == [None]

    play(scenario)


def test_a_change_of_somebody_else_is_not_taken_for_ones_own() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        zookeeper.when_lost = lambda: zookeeper.set("/a", b"theirs")
        (outcome,) = await term.write([[SetData("/a", b"mine", 0)]])
        assert isinstance(outcome, BadVersionError)
        assert zookeeper.requests == [2, 2]
        found: Node | None = await zookeeper.get("/a")
        assert found is not None
        assert found.data == b"theirs"

    play(scenario)


@pytest.mark.parametrize("count", [1, 2])
def test_a_controller_that_was_replaced_changes_nothing(count: int) -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        await zookeeper.set(paths.CONTROLLER_EPOCH, b"5")
        with pytest.raises(ControllerMovedError):
            await term.write([[Create(f"/a/{number}")] for number in range(count)])
        assert await zookeeper.children("/a") == []

    play(scenario)


def test_nothing_is_done_after_the_end_of_the_session() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        connection.changed(SessionState.SUSPENDED)
        zookeeper.losses = 1
        writing = asyncio.ensure_future(term.write([[SetData("/a", b"1", 0)]]))
        await asyncio.sleep(1)
        assert not writing.done()
        connection.changed(SessionState.EXPIRED)
        with pytest.raises(SessionEndedError):
            await writing
        connection.changed(SessionState.CONNECTED)
        for wanted in (term.write([[Create("/a/1")]]), term.write([[Create("/a/1")], [Create("/a/2")]])):
            with pytest.raises(SessionEndedError):
                await wanted
        with pytest.raises(SessionEndedError):
            await term.read(["/a"], no_watch)

    play(scenario)


@pytest.mark.parametrize("losses", [0, 1])
def test_a_candidate_recognizes_its_own_election(losses: int) -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        zookeeper.losses = losses
        watched: list[object] = []
        data = controller.encode(3, 1)
        assert await elect(zookeeper, connection, data, watched.append, is_active=False) == (5, 1)
        assert await elect(zookeeper, connection, data, watched.append, is_active=True) is None
        await resign(zookeeper, connection, 1)
        assert await zookeeper.get(paths.CONTROLLER) is None
        # A former one takes nothing away.
        assert await elect(zookeeper, connection, data, watched.append, is_active=False) == (6, 2)
        await resign(zookeeper, connection, 1)
        assert await zookeeper.get(paths.CONTROLLER) is not None

    play(scenario)


def test_a_candidate_that_loses_learns_who_won() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        await zookeeper.create(paths.CONTROLLER, controller.encode(9, 1))
        told: list[object] = []
        assert await elect(zookeeper, connection, controller.encode(3, 1), told.append, is_active=False) == 9
        await zookeeper.delete(paths.CONTROLLER)
        await asyncio.sleep(1)
        assert told

    play(scenario)


def test_a_candidate_does_not_wait_for_the_session_of_its_process_of_before() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        # ZooKeeper has not noticed yet that the process was killed: the node belongs to another session.
        await zookeeper.create(paths.CONTROLLER, controller.encode(3, 1))
        assert await elect(zookeeper, connection, controller.encode(3, 2), lambda event: None, is_active=False) == (
            5,
            1,
        )
        found = await zookeeper.get(paths.CONTROLLER)
        assert found is not None
        assert found.stat.owner == zookeeper.session_id

    play(scenario)


def test_a_candidate_takes_nothing_from_one_that_was_elected_meanwhile() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        told: list[object] = []
        data = controller.encode(3, 1)
        assert await elect(zookeeper, connection, data, told.append, is_active=False) == (5, 1)

        async def other_is_elected() -> None:
            """Let an operator force an election, just before this one gives up its former office."""
            await zookeeper.delete(paths.CONTROLLER)
            await zookeeper.set(paths.CONTROLLER_EPOCH, b"6", 1)
            await zookeeper.create(paths.CONTROLLER, controller.encode(9, 1))

        read = zookeeper.get

        async def get(path: str, watch: Watch | None = None) -> Node | None:
            found = await read(path, watch)
            if path == paths.CONTROLLER and found is not None and controller.decode(found.data) == 3:
                await other_is_elected()
            return found

        zookeeper.get = get
        assert await elect(zookeeper, connection, data, told.append, is_active=False) == 9
        assert await zookeeper.get(paths.CONTROLLER) is not None

    play(scenario)


def test_a_candidate_leaves_the_node_of_a_kraft_controller_alone() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        # The id is that of the candidate: it must not take the node for its own of before.
        kraft = b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":7}'
        await zookeeper.create(paths.CONTROLLER, kraft)
        told: list[object] = []
        with pytest.raises(KraftMigrationError, match="KRaft controller 3 migrates"):
            await elect(zookeeper, connection, controller.encode(3, 1), told.append, is_active=False)
        found = await zookeeper.get(paths.CONTROLLER)
        assert found is not None
        assert found.data == kraft
        # When the migration is taken back, the node is deleted.
        await zookeeper.delete(paths.CONTROLLER)
        await asyncio.sleep(1)
        assert told
        assert await elect(zookeeper, connection, controller.encode(3, 1), told.append, is_active=False) == (5, 1)

    play(scenario)


def test_a_refusal_that_lasts_is_raised() -> None:
    async def scenario(zookeeper: Lossy, term: Term, connection: Connection) -> None:
        told: list[object] = []
        zookeeper.refusal = AccessDeniedError("no")
        with pytest.raises(AccessDeniedError):
            await elect(zookeeper, connection, controller.encode(3, 1), told.append, is_active=False)
        with pytest.raises(AccessDeniedError):
            await resign(zookeeper, connection, 0)

    play(scenario)

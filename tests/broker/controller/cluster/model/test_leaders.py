"""Elections: the cases of Kafka's `PartitionLeaderElectionAlgorithmsTest`, and properties."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.protocol_version import ProtocolVersion
from broker.controller.cluster.model.context import ControllerContext, Settings
from broker.controller.cluster.model.leaders import Strategy, elect
from broker.metadata.model import BrokerRegistration, LeaderRecoveryState
from broker.metadata.znodes.topics import Assignment, StateNode
from tests.support.amount import examples

KEY = ("words", 0)
RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


def context_of(
    replicas: tuple[int, ...], live: set[int], shutting_down: Iterable[int] = (), protocol: str = "3.9"
) -> ControllerContext:
    context = ControllerContext(Settings(1, ProtocolVersion.parse(protocol), "PLAINTEXT"), epoch=9)
    context.brokers = {broker: BrokerRegistration(broker, ()) for broker in live}
    context.shutting_down = set(shutting_down)
    context.put_assignment(KEY, Assignment(replicas))
    return context


def state(leader: int, isr: tuple[int, ...]) -> StateNode:
    return StateNode(leader, 5, isr, 8, partition_epoch=3)


@pytest.mark.parametrize(
    ("replicas", "live", "isr", "unclean", "leader", "new_isr"),
    [
        ((4, 2), {4}, (2, 4), False, 4, (4,)),
        ((2, 4), {4}, (2, 4), False, 4, (4,)),
        ((4, 2), {4}, (2,), False, None, None),
        ((2, 4), {4}, (2,), True, 4, (4,)),
        ((2, 4, 6), {4, 6}, (2,), True, 4, (4,)),
        ((2, 4), set(), (2,), True, None, None),
        ((6, 5, 4), {4, 5, 6}, (4, 5), False, 5, (4, 5)),
    ],
)
def test_an_offline_partition(
    replicas: tuple[int, ...],
    live: set[int],
    isr: tuple[int, ...],
    unclean: bool,
    leader: int | None,
    new_isr: tuple[int, ...] | None,
) -> None:
    context = context_of(replicas, live)
    elected = elect(context, KEY, state(2, isr), Strategy.OFFLINE, is_unclean=unclean)
    if leader is None:
        assert elected.state is None
        return
    assert elected.state is not None
    assert (elected.state.leader, elected.state.isr) == (leader, new_isr)
    assert elected.state.leader_epoch == 6
    assert elected.state.partition_epoch == 3
    assert elected.state.controller_epoch == 9
    assert elected.state.recovery is (RECOVERED if leader in isr else RECOVERING)
    assert elected.recipients == tuple(each for each in replicas if each in live)


def test_a_leader_does_not_recover_before_brokers_know_of_it() -> None:
    context = context_of((2, 4), {4}, protocol="3.1")
    elected = elect(context, KEY, state(2, (2,)), Strategy.OFFLINE, is_unclean=True)
    assert elected.state is not None
    assert elected.state.recovery is RECOVERED


@pytest.mark.parametrize(
    ("replicas", "live", "isr", "leader"),
    [
        ((4, 2), {4}, (2, 4), 4),
        ((4, 2), {2}, (2, 4), None),
        ((4, 2), {4, 2}, (2,), None),
        ((2, 4), {4, 2}, (2, 4), 2),
    ],
)
def test_the_preferred_leader(
    replicas: tuple[int, ...], live: set[int], isr: tuple[int, ...], leader: int | None
) -> None:
    elected = elect(context_of(replicas, live), KEY, state(9, isr), Strategy.PREFERRED)
    assert (elected.state.leader if elected.state else None) == leader
    if elected.state:
        assert elected.state.isr == isr


def test_a_reassigned_partition_is_led_by_a_replica_of_the_target() -> None:
    context = context_of((1,), {1, 2, 3, 4})
    context.put_assignment(KEY, Assignment((3, 4, 1, 2), (3, 4), (1, 2)))
    elected = elect(context, KEY, state(1, (1, 2, 4)), Strategy.REASSIGN)
    assert elected.state is not None
    assert (elected.state.leader, elected.state.isr) == (4, (1, 2, 4))
    assert elected.recipients == (3, 4)
    assert elect(context, KEY, state(1, (1, 2)), Strategy.REASSIGN).state is None


@pytest.mark.parametrize(
    ("isr", "live", "shutting_down", "leader", "new_isr"),
    [
        ((2, 4), {2, 4}, {2}, 4, (4,)),
        ((2,), {2, 4}, {2}, None, None),
        ((2, 4), {2}, {2}, None, None),
        ((2, 4, 6), {2, 4, 6}, {2, 4}, 6, (6,)),
        ((2, 4), {2, 4}, {2, 4}, None, None),
    ],
)
def test_a_leader_that_shuts_down(
    isr: tuple[int, ...], live: set[int], shutting_down: set[int], leader: int | None, new_isr: tuple[int, ...] | None
) -> None:
    context = context_of((2, 4, 6), live, shutting_down)
    elected = elect(context, KEY, state(2, isr), Strategy.CONTROLLED_SHUTDOWN)
    assert (elected.state.leader if elected.state else None) == leader
    assert (elected.state.isr if elected.state else None) == new_isr
    # The one that shuts down is told, too.
    assert elected.recipients == tuple(each for each in (2, 4, 6) if each in live)


ids = st.sets(st.integers(0, 5))


@given(
    st.lists(st.integers(0, 5), min_size=1, unique=True).map(tuple),
    st.data(),
    ids,
    ids,
    st.sampled_from(Strategy),
    st.booleans(),
)
@settings(max_examples=examples(500))
def test_a_leader_is_always_online_and_in_sync_unless_that_is_allowed(
    replicas: tuple[int, ...],
    data: st.DataObject,
    live: set[int],
    shutting_down: set[int],
    strategy: Strategy,
    unclean: bool,
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    context = context_of(replicas, live, shutting_down)
    before = state(isr[0], isr)
    elected = elect(context, KEY, before, strategy, is_unclean=unclean).state
    if elected is None:
        return
    assert elected.leader_epoch == before.leader_epoch + 1
    assert elected.leader in replicas
    assert elected.leader in elected.isr
    assert elected.leader in live - shutting_down
    if elected.leader not in isr:
        assert unclean
        assert strategy in (Strategy.OFFLINE, Strategy.UNCLEAN)
        assert not set(isr) & (live - shutting_down)
        assert elected.isr == (elected.leader,)
    else:
        assert set(elected.isr) <= set(isr)

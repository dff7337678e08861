"""Partitions from one phase to another (Kafka: `PartitionStateMachine`).

    NON_EXISTENT -> NEW -> ONLINE <-> OFFLINE -> NON_EXISTENT

To become ONLINE a new partition gets its first leader, and another one an election.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from broker.controller.cluster.machine import log_ends
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, PartitionPhase
from broker.controller.cluster.model.effects import Steps, read, send, write
from broker.controller.cluster.model.leaders import Strategy, elect
from broker.controller.cluster.model.requests import ControlBatch
from broker.controller.cluster.model.states import StateChangeError, present_states, read_states, write_states
from broker.metadata.znodes import configs, paths, topics
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode
from broker.zookeeper.interface import Create, NodeExistsError, NoNodeError, ZooKeeperError

logger = logging.getLogger(__name__)

_BEFORE: Mapping[PartitionPhase, frozenset[PartitionPhase]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}
"""The phases that a phase can follow."""
UNCLEAN_KEY = "unclean.leader.election.enable"

Result = StateNode | Exception
"""The state of an elected leader, or why there is none."""
Results = dict[PartitionKey, Result]


def startup(context: ControllerContext) -> Steps[set[PartitionKey]]:
    """Find the phases of all partitions, and elect leaders where there is none; return the partitions that got one."""
    for key in context.partitions():
        state = context.states.get(key)
        if state is None:
            phase = PartitionPhase.NEW
        elif context.is_online(state.leader, key):
            phase = PartitionPhase.ONLINE
        else:
            phase = PartitionPhase.OFFLINE
        context.partition_phases[key] = phase
    results = yield from bring_online(context, is_first=True)
    return {key for key, result in results.items() if isinstance(result, StateNode)}


def bring_online(context: ControllerContext, topic: str | None = None, *, is_first: bool = False) -> Steps[Results]:
    """Elect leaders of all partitions that have none, or of those of one topic.

    Args:
        is_first: this controller has not sent any topic to the brokers yet.
    """
    waiting = [
        key
        for key, phase in context.partition_phases.items()
        if phase in (PartitionPhase.NEW, PartitionPhase.OFFLINE)
        and key[0] not in context.deleting
        and topic in (None, key[0])
    ]
    return (yield from change(context, waiting, PartitionPhase.ONLINE, Strategy.OFFLINE, tells_topics=is_first))


def change(
    context: ControllerContext,
    keys: Iterable[PartitionKey],
    to: PartitionPhase,
    strategy: Strategy = Strategy.OFFLINE,
    *,
    tells_topics: bool = False,
) -> Steps[Results]:
    """Bring partitions into a phase; return the outcome of the elections that were needed.

    Partitions that cannot be brought there stay where they are.

    Args:
        strategy: who may become leader, if `to` is ONLINE.
        tells_topics: tell the brokers of all partitions of the topics, not only of those that change. A broker that
            knows a part of a topic takes it for the whole: its clients would choose among fewer partitions.
    """
    valid = _valid(context, keys, to)
    if to is not PartitionPhase.ONLINE:
        context.partition_phases.update(dict.fromkeys(valid, to))
        return {}
    batch = ControlBatch(context)
    new = [key for key in valid if context.partition_phases[key] is PartitionPhase.NEW]
    results = yield from _elect_first(context, new, batch)
    known = [key for key in valid if key not in results and context.partition_phases[key] is not PartitionPhase.NEW]
    results |= yield from _elect(context, known, strategy, batch)
    for key, result in results.items():
        if isinstance(result, Exception):
            logger.warning("partition %s-%d stays without a new leader: %s", *key, result)
        else:
            context.partition_phases[key] = PartitionPhase.ONLINE
    if tells_topics:
        batch.inform_all(context.partitions_of({topic for topic, _ in results}))
    yield from send(batch.requests())
    return results


def _valid(context: ControllerContext, keys: Iterable[PartitionKey], to: PartitionPhase) -> list[PartitionKey]:
    valid = []
    for key in keys:
        present = context.partition_phases.setdefault(key, PartitionPhase.NON_EXISTENT)
        if present in _BEFORE[to]:
            valid.append(key)
        else:
            logger.error("partition %s-%d cannot become %s from %s", *key, to.name, present.name)
    return valid


# New partitions


def _elect_first(context: ControllerContext, keys: Sequence[PartitionKey], batch: ControlBatch) -> Steps[Results]:
    """Make the first live replica of each partition its leader, and the live replicas its ISR."""
    results: Results = {}
    first: dict[PartitionKey, StateNode] = {}
    for key in keys:
        replicas = context.assignment(key).replicas
        live = context.online(key, replicas)
        if live:
            first[key] = StateNode(leader=live[0], leader_epoch=0, isr=live, controller_epoch=context.epoch)
        else:
            results[key] = StateChangeError(f"None of its replicas {list(replicas)} is alive.")
    yield from _make_parents(first)
    outcomes = yield from write(
        [Create(paths.partition(*key)), Create(paths.partition_state(*key), topics.encode_state(state))]
        for key, state in first.items()
    )
    half_made: dict[PartitionKey, StateNode] = {}
    for (key, state), outcome in zip(first.items(), outcomes, strict=True):
        if isinstance(outcome, NodeExistsError):
            half_made[key] = state
        else:
            _first_elected(context, key, state, outcome, batch, results)
    # A controller that stopped in between has made the partition's node, but not its state.
    outcomes = yield from write(
        [Create(paths.partition_state(*key), topics.encode_state(state))] for key, state in half_made.items()
    )
    adopted = []
    for (key, state), outcome in zip(half_made.items(), outcomes, strict=True):
        if isinstance(outcome, NodeExistsError):
            adopted.append(key)
        else:
            _first_elected(context, key, state, outcome, batch, results)
    yield from _adopt(context, adopted)
    return results


def _adopt(context: ControllerContext, keys: Sequence[PartitionKey]) -> Steps[None]:
    """Take over the states that partitions have although they were taken for new; they get an election then."""
    states = yield from read_states(keys)
    for key, state in states.items():
        context.put_state(key, state)
        context.partition_phases[key] = PartitionPhase.OFFLINE


def _make_parents(keys: Iterable[PartitionKey]) -> Steps[None]:
    parents = dict.fromkeys(paths.partitions(topic) for topic, _ in keys)
    outcomes = yield from write([Create(path)] for path in parents)
    for path, outcome in zip(parents, outcomes, strict=True):
        if isinstance(outcome, ZooKeeperError) and not isinstance(outcome, NodeExistsError | NoNodeError):
            logger.error("the node %s cannot be made: %r", path, outcome)


def _first_elected(
    context: ControllerContext,
    key: PartitionKey,
    state: StateNode,
    outcome: object,
    batch: ControlBatch,
    results: Results,
) -> None:
    if isinstance(outcome, ZooKeeperError):
        results[key] = outcome
        return
    context.put_state(key, state)
    batch.tell_roles(state.isr, key, state, context.assignment(key), is_new=True)
    results[key] = state


# Elections


def _elect(
    context: ControllerContext, keys: Sequence[PartitionKey], strategy: Strategy, batch: ControlBatch
) -> Steps[Results]:
    results: Results = {}
    remaining, anew = list(keys), False
    while remaining:
        elected, recipients = yield from _decide(context, remaining, strategy, results, anew=anew)
        done, remaining = yield from write_states(context, elected)
        for key, result in done.items():
            results[key] = result
            if isinstance(result, StateNode):
                batch.tell_roles(recipients[key], key, result, context.assignment(key))
        anew = True
    return results


def _decide(
    context: ControllerContext, keys: Sequence[PartitionKey], strategy: Strategy, results: Results, *, anew: bool
) -> Steps[tuple[dict[PartitionKey, StateNode], dict[PartitionKey, tuple[int, ...]]]]:
    """Elect leaders; return the states to write, with the recipients of each. Put failures into `results`."""
    present = yield from present_states(context, keys, anew=anew)
    states: dict[PartitionKey, StateNode] = {}
    for key, found in present.items():
        if isinstance(found, StateNode):
            states[key] = found
        else:
            results[key] = found
    unclean = yield from _unclean(context, states, strategy)
    lost = [key for key, state in states.items() if key[0] in unclean and _is_lost(context, key, state)]
    longest = yield from log_ends.longest(context, lost)
    elected: dict[PartitionKey, StateNode] = {}
    recipients: dict[PartitionKey, tuple[int, ...]] = {}
    for key, state in states.items():
        outcome = elect(context, key, state, strategy, is_unclean=key[0] in unclean, longest=longest.get(key))
        if outcome.state is None:
            results[key] = StateChangeError(
                f"Failed to elect leader for partition {key[0]}-{key[1]} under strategy {strategy.name}"
            )
        else:
            elected[key] = outcome.state
            recipients[key] = outcome.recipients
    return elected, recipients


def _unclean(
    context: ControllerContext, states: Mapping[PartitionKey, StateNode], strategy: Strategy
) -> Steps[set[str]]:
    """Return the topics whose partitions may be led by any replica if no in-sync one is available."""
    if strategy not in (Strategy.OFFLINE, Strategy.UNCLEAN):
        return set()
    lost = {key[0]: None for key, state in states.items() if _is_lost(context, key, state)}
    if strategy is Strategy.UNCLEAN:
        return set(lost)
    return (yield from allow_unclean(context, lost))


def _is_lost(context: ControllerContext, key: PartitionKey, state: StateNode) -> bool:
    """Return whether no replica in sync can lead. A removed replica stays the last one in sync, and cannot lead."""
    replicas = context.assignment(key).replicas
    return not context.online(key, [member for member in state.isr if member in replicas])


def allow_unclean(context: ControllerContext, names: Iterable[str]) -> Steps[set[str]]:
    """Return those of some topics whose configuration allows leaders that are not in sync."""
    wanted = list(names)
    nodes = yield from read(paths.config("topics", topic) for topic in wanted)
    allowed = set()
    for topic, node in zip(wanted, nodes, strict=True):
        path = paths.config("topics", topic)
        try:
            config = {} if node is None or not node.data else configs.decode(path, node.data)
        except ZnodeError as error:
            logger.error("%s", error)
            continue
        value = config.get(UNCLEAN_KEY)
        if context.settings.unclean_election if value is None else value.strip().lower() == "true":
            allowed.add(topic)
    return allowed

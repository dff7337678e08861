"""Replicas from one phase to another (Kafka: `ReplicaStateMachine`).

    NON_EXISTENT -> NEW -> ONLINE <-> OFFLINE -> DELETION_STARTED -> DELETION_SUCCESSFUL -> NON_EXISTENT

A replica whose deletion fails becomes DELETION_INELIGIBLE, and OFFLINE again to try anew.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from broker.controller.cluster.model.assignments import without
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, ReplicaKey, ReplicaPhase
from broker.controller.cluster.model.effects import Steps, send
from broker.controller.cluster.model.requests import ControlBatch
from broker.controller.cluster.model.states import present_states, write_states
from broker.metadata.model import NO_LEADER
from broker.metadata.znodes.topics import StateNode

logger = logging.getLogger(__name__)

_USABLE = frozenset({ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE})
_BEFORE: Mapping[ReplicaPhase, frozenset[ReplicaPhase]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: _USABLE,
    ReplicaPhase.OFFLINE: _USABLE,
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}
"""The phases that a phase can follow."""


def find_phases(context: ControllerContext) -> None:
    """Find the phases of all replicas."""
    everything = context.replicas_of(context.partitions())
    online = [each for each in everything if context.is_online(each.broker_id, each.key)]
    context.replica_phases.update(dict.fromkeys(everything, ReplicaPhase.DELETION_INELIGIBLE))
    context.replica_phases.update(dict.fromkeys(online, ReplicaPhase.ONLINE))


def startup(context: ControllerContext, told: Container[PartitionKey]) -> Steps[None]:
    """Take replicas that are not available out of the ISRs, and tell the brokers all their roles.

    Args:
        context: The cluster.
        told: Partitions that got a leader just now, from replicas that are available. Their replicas know their roles.
    """
    by_phase: dict[ReplicaPhase, list[ReplicaKey]] = {ReplicaPhase.OFFLINE: [], ReplicaPhase.ONLINE: []}
    for each, phase in context.replica_phases.items():
        wanted = ReplicaPhase.ONLINE if phase is ReplicaPhase.ONLINE else ReplicaPhase.OFFLINE
        if each.key in told:
            context.replica_phases[each] = wanted
        else:
            by_phase[wanted].append(each)
    batch = ControlBatch(context)
    # Roles follow in the same requests, with the states that are in force by then.
    for to, replicas in by_phase.items():
        yield from _change(context, replicas, to, batch)
    yield from send(batch.requests())


def change(context: ControllerContext, replicas: Iterable[ReplicaKey], to: ReplicaPhase) -> Steps[None]:
    """Bring replicas into a phase. Those that cannot be brought there stay where they are."""
    batch = ControlBatch(context)
    yield from _change(context, replicas, to, batch)
    yield from send(batch.requests())


def tell_roles(context: ControllerContext, replicas: Iterable[ReplicaKey]) -> Steps[None]:
    """Bring replicas online, and tell their brokers the roles of all of them.

    A new replica gets its role again, too, because it may lead by now. Kafka does not tell it, and so does not learn
    that its log directory has failed.
    """
    wanted = list(replicas)
    batch = ControlBatch(context)
    for each in wanted:
        state = context.states.get(each.key)
        if state is not None and context.phase_of(each) is ReplicaPhase.NEW:
            batch.tell_roles([each.broker_id], each.key, state, context.assignment(each.key))
    yield from _change(context, wanted, ReplicaPhase.ONLINE, batch)
    yield from send(batch.requests())


def _change(
    context: ControllerContext, replicas: Iterable[ReplicaKey], to: ReplicaPhase, batch: ControlBatch
) -> Steps[None]:
    valid = _valid(context, replicas, to)
    match to:
        case ReplicaPhase.NEW:
            valid = [each for each in valid if _begin(context, each, batch)]
        case ReplicaPhase.ONLINE:
            for each in valid:
                _go_online(context, each, batch)
        case ReplicaPhase.OFFLINE:
            by_broker: dict[int, list[ReplicaKey]] = {}
            for each in valid:
                by_broker.setdefault(each.broker_id, []).append(each)
            valid = []
            for broker_id, gone in by_broker.items():
                valid += yield from _go_offline(context, broker_id, gone, batch)
        case ReplicaPhase.DELETION_STARTED:
            for each in valid:
                batch.stop(each.broker_id, each.key, delete=True)
        case ReplicaPhase.NON_EXISTENT:
            for each in valid:
                context.put_assignment(each.key, without(context.assignment(each.key), each.broker_id))
                context.replica_phases.pop(each, None)
            valid = []
    context.replica_phases.update(dict.fromkeys(valid, to))


def _valid(context: ControllerContext, replicas: Iterable[ReplicaKey], to: ReplicaPhase) -> list[ReplicaKey]:
    valid = []
    for each in replicas:
        present = context.phase_of(each)
        if present in _BEFORE[to]:
            valid.append(each)
        else:
            logger.error("replica %d of %s-%d cannot become %s from %s", each[2], *each.key, to.name, present.name)
    return valid


def _begin(context: ControllerContext, each: ReplicaKey, batch: ControlBatch) -> bool:
    """Tell a broker to create a follower; return False if the replica leads the partition."""
    state = context.states.get(each.key)
    if state is None:
        return True
    if state.leader == each.broker_id:
        logger.error("replica %d of %s-%d is not new: it is the leader", each.broker_id, *each.key)
        return False
    batch.tell_roles([each.broker_id], each.key, state, context.assignment(each.key), is_new=True)
    return True


def _go_online(context: ControllerContext, each: ReplicaKey, batch: ControlBatch) -> None:
    assignment = context.assignment(each.key)
    if context.phase_of(each) is ReplicaPhase.NEW:
        if each.broker_id not in assignment.replicas:
            logger.error("replica %d is not in the assignment of %s-%d", each.broker_id, *each.key)
            context.put_assignment(each.key, replace(assignment, replicas=(*assignment.replicas, each.broker_id)))
        return
    state = context.states.get(each.key)
    if state is not None:
        batch.tell_roles([each.broker_id], each.key, state, assignment)


# Offline


def _go_offline(
    context: ControllerContext, broker_id: int, replicas: Sequence[ReplicaKey], batch: ControlBatch
) -> Steps[list[ReplicaKey]]:
    """Stop replicas of a broker and take them out of the ISRs; return those for which that was done."""
    for each in replicas:
        batch.stop(broker_id, each.key, delete=False)
    without_leader = [each for each in replicas if each.key not in context.states]
    removed = yield from _leave_isr(context, broker_id, [each.key for each in replicas if each.key in context.states])
    for key, state in removed.items():
        if key[0] in context.deleting:
            continue
        assignment = context.assignment(key)
        others = [other for other in assignment.replicas if other != broker_id]
        batch.tell_roles(others, key, state, assignment)
    if without_leader:
        batch.inform_all(each.key for each in without_leader)
    return [ReplicaKey(*key, broker_id) for key in removed] + without_leader


def _leave_isr(
    context: ControllerContext, broker_id: int, keys: Sequence[PartitionKey]
) -> Steps[dict[PartitionKey, StateNode]]:
    """Take a broker out of the ISRs of partitions; return the new states, without those that failed."""
    results: dict[PartitionKey, StateNode] = {}
    remaining, anew = list(keys), False
    while remaining:
        present = yield from present_states(context, remaining, anew=anew)
        shrunk: dict[PartitionKey, StateNode] = {}
        for key, found in present.items():
            if not isinstance(found, StateNode):
                logger.error("replica %d of %s-%d cannot go offline: %s", broker_id, *key, found)
            elif broker_id in found.isr:
                shrunk[key] = shrink(found, broker_id)
            else:
                # The state does not change, but the other replicas get a LeaderAndIsr all the same, as in Kafka.
                results[key] = replace(found, controller_epoch=context.epoch)
                context.put_state(key, results[key])
        done, remaining = yield from write_states(context, shrunk)
        for key, result in done.items():
            if isinstance(result, StateNode):
                results[key] = result
            else:
                logger.error("replica %d of %s-%d cannot go offline: %r", broker_id, *key, result)
        anew = True
    return results


def shrink(state: StateNode, broker_id: int) -> StateNode:
    """Return a state without a broker in the ISR. The last member stays: only it has all committed records."""
    isr = tuple(member for member in state.isr if member != broker_id)
    return replace(
        state,
        leader=NO_LEADER if state.leader == broker_id else state.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr or state.isr,
    )

"""Moves partitions to other brokers (Kafka: `KafkaController.onPartitionReassignment`, KIP-455).

A reassignment has these steps, each of them for all partitions that are asked for together:

- U. The topic's node gets the full set of replicas, with what is added and removed. From here on a controller that
  takes over goes on with it. Replicas that a replaced reassignment was adding are stopped. If one of them led, another
  replica is elected.
- A. As long as a replica of the target is not in sync: the leader epoch is incremented, so that all replicas learn the
  new set, and new replicas are created.
- B. When all of them are in sync: the set becomes the target, the leader moves if it is not in there, the others are
  stopped and deleted, and the topic's node gets the target last.

Between A and B the controller waits: after each change of an ISR, and when a broker starts, it looks again.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from broker.controller.cluster.machine import partitions, replicas
from broker.controller.cluster.model.assignments import (
    is_being_reassigned,
    origin,
    reassign_to,
    target,
)
from broker.controller.cluster.model.context import (
    ControllerContext,
    PartitionKey,
    PartitionPhase,
    ReplicaKey,
    ReplicaPhase,
)
from broker.controller.cluster.model.effects import Steps, Unwatch, read, send, write
from broker.controller.cluster.model.history import Change, describe_assignment
from broker.controller.cluster.model.leaders import Strategy
from broker.controller.cluster.model.requests import ControlBatch
from broker.controller.cluster.model.states import present_states, read_states, write_states
from broker.controller.cluster.model.topic_nodes import change_topics
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode
from broker.zookeeper.interface import BadVersionError, Delete, NoNodeError, SetData, ZooKeeperError
from kafkalog.protocol.errors import (
    InvalidReplicaAssignmentError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

logger = logging.getLogger(__name__)

Wanted = Mapping[PartitionKey, Sequence[int] | None]
"""The replicas that partitions are to have; None cancels what is in progress."""
Errors = dict[PartitionKey, KafkaError | None]


def by_api(context: ControllerContext, wanted: Wanted) -> Steps[Errors]:
    """Carry out AlterPartitionReassignments; return the error of each partition, or None."""
    errors: Errors = {}
    begun: dict[PartitionKey, Assignment] = {}
    for key, brokers in wanted.items():
        present = context.assignment(key)
        error = None if brokers is None else check(context, present, brokers)
        if error is None and brokers is None and not is_being_reassigned(present):
            error = NoReassignmentInProgressError()
        if error is None:
            begun[key] = reassign_to(present, origin(present) if brokers is None else brokers)
        else:
            errors[key] = error
    refused = yield from _losses(context, begun)
    errors |= refused
    begun = {key: assignment for key, assignment in begun.items() if key not in refused}
    # What the API asks for replaces what a tool has asked for by a node.
    yield from _leave_order(context, lambda key, _: key in begun)
    errors |= yield from _begin(context, begun)
    return {key: errors[key] for key in wanted}


def check(context: ControllerContext, present: Assignment, brokers: Sequence[int]) -> KafkaError | None:
    """Return why a partition cannot get these replicas, or None. Only replicas that are added have to be alive."""
    if not brokers:
        return InvalidReplicaAssignmentError("Empty replica list specified in partition reassignment.")
    if len(set(brokers)) != len(brokers):
        return InvalidReplicaAssignmentError(
            f"Duplicate replica ids in partition reassignment replica list: {list(brokers)}"
        )
    if min(brokers) < 0:
        return InvalidReplicaAssignmentError(f"Invalid broker id in replica list: {list(brokers)}")
    adding, live = reassign_to(present, brokers).adding, context.live()
    if not live.issuperset(adding):
        return InvalidReplicaAssignmentError(
            f"Replica assignment has brokers that are not alive. Replica list: {list(adding)}, live broker list: "
            f"{sorted(live)}"
        )
    return None


def by_order(context: ControllerContext) -> Steps[set[PartitionKey]]:
    """Carry out what a tool has written to `/admin/reassign_partitions`; return the partitions that are reassigned."""
    order = yield from _order(watch=True)
    if order is None:
        return set()
    if not order.replicas:
        # Nothing is left to do, or nothing can be read. A tool cannot ask for more as long as the node is there.
        yield from _leave_order(context, lambda *_: False)
        return set()
    context.cause = f"a tool asked for a reassignment ({paths.REASSIGN_PARTITIONS})"
    begun = {
        key: reassign_to(context.assignment(key), brokers)
        for key, brokers in order.replicas.items()
        # The node also changes when a part of it is done.
        if key not in context.reassigning or target(context.assignment(key)) != brokers
    }
    losses = yield from _losses(context, begun)
    errors = yield from _begin(context, {key: each for key, each in begun.items() if key not in losses})
    errors |= losses
    refused = {key: error for key, error in errors.items() if error is not None}
    if refused:
        logger.warning("the reassignment in ZooKeeper is refused for some partitions: %s", refused)
        yield from _leave_order(context, lambda key, _: key in refused)
    return errors.keys() - refused.keys()


def resume(context: ControllerContext, keys: Iterable[PartitionKey]) -> Steps[None]:
    """Go on with reassignments that are in progress."""
    yield from reassign(context, {key: context.assignment(key) for key in keys})


def complete(context: ControllerContext, keys: Iterable[PartitionKey]) -> Steps[None]:
    """Finish those reassignments whose targets are in sync."""
    waiting = {key: context.assignment(key) for key in keys if key in context.reassigning}
    if waiting:
        done = yield from _done(context, waiting)
        context.cause = "all replicas that the reassignment adds are in sync"
        yield from reassign(context, {key: waiting[key] for key in done})


def abandon(context: ControllerContext, topics: Collection[str]) -> Steps[None]:
    """End the reassignments of topics that are being deleted; all their replicas are deleted, wherever they are.

    Apache Kafka deletes such a topic when the reassignment is complete. That never comes about if the partition has no
    leader, because a topic that is to be deleted gets no elections.
    """
    ended = [key for key in sorted(context.reassigning) if key[0] in topics]
    if ended:
        context.reassigning.difference_update(ended)
        if not context.is_alter_partition:
            yield Unwatch([paths.partition_state(*key) for key in ended])
        yield from _leave_order(context, lambda key, _: key in ended)


def _losses(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[Errors]:
    """Return the errors of partitions whose replicas in sync would all be deleted at once.

    That is so when a reassignment is cancelled or replaced, and only replicas that it added are in sync. Kafka's
    controller refuses it in KRaft mode (`ReplicationControlManager`), and deletes the replicas in ZooKeeper mode.
    """
    shrinking = [
        key
        for key, assignment in wanted.items()
        if key[0] not in context.deleting and not set(context.assignment(key).replicas).issubset(assignment.replicas)
    ]
    states = yield from present_states(context, shrinking, anew=False)
    lost = {
        key: state.isr
        for key, state in states.items()
        if isinstance(state, StateNode) and state.isr and set(state.isr).isdisjoint(wanted[key].replicas)
    }
    allowed = yield from partitions.allow_unclean(context, dict.fromkeys(topic for topic, _ in lost))
    return {
        key: InvalidReplicaAssignmentError(
            f"Partition {key[0]}-{key[1]} would lose all its replicas in sync, {list(isr)}, and records with them. "
            f"Wait until one of {list(wanted[key].replicas)} is in sync, or name one of {list(isr)} in the target. "
            f"To give the records up, set {partitions.UNCLEAN_KEY}=true for the topic."
        )
        for key, isr in lost.items()
        if key[0] not in allowed
    }


def _begin(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[Errors]:
    errors: Errors = {}
    begun: dict[PartitionKey, Assignment] = {}
    for key, assignment in wanted.items():
        if key[0] in context.deleting or not context.assignment(key).replicas:
            errors[key] = UnknownTopicOrPartitionError("The partition does not exist.")
        else:
            begun[key] = assignment
    failed = yield from reassign(context, begun)
    return errors | {key: failed.get(key) for key in begun}


def reassign(
    context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]
) -> Steps[dict[PartitionKey, KafkaError]]:
    """Carry out the steps of the module as far as they can be done now; return what failed."""
    if not wanted:
        return {}
    failed = yield from _update(context, wanted)
    begun = {key: assignment for key, assignment in wanted.items() if key not in failed}
    done = yield from _done(context, begun)
    yield from _add(context, {key: assignment for key, assignment in begun.items() if key not in done})
    yield from _finish(context, {key: begun[key] for key in done})
    return failed


# U


def _update(
    context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]
) -> Steps[dict[PartitionKey, KafkaError]]:
    changed = {key: each for key, each in wanted.items() if context.assignment(key) != each}
    failed = yield from _write_assignments(context, changed)
    unneeded: list[ReplicaKey] = []
    for key, assignment in changed.items():
        if key in failed:
            continue
        before = context.assignment(key)
        context.put_assignment(key, assignment)
        what = describe_assignment(before, assignment)
        context.note(Change(*key, what, context.cause, before, assignment))
        unneeded += [ReplicaKey(*key, each) for each in before.replicas if each not in assignment.replicas]
    led = [each.key for each in unneeded if _leads(context, each)]
    yield from _remove(context, unneeded)
    # Without a leader the partition would wait for ever: new replicas need one to get in sync.
    yield from partitions.change(context, led, PartitionPhase.OFFLINE)
    yield from partitions.change(context, led, PartitionPhase.ONLINE, Strategy.OFFLINE)
    begun = [key for key in wanted if key not in failed]
    if not context.is_alter_partition:
        # Leaders write the ISR themselves, and the controller sees it there.
        yield from read_states(begun, watch=True)
    context.reassigning.update(begun)
    return failed


def _leads(context: ControllerContext, replica: ReplicaKey) -> bool:
    state = context.states.get(replica.key)
    return state is not None and state.leader == replica.broker_id


def _write_assignments(
    context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]
) -> Steps[dict[PartitionKey, KafkaError]]:
    """Write the assignments of partitions to their topics' nodes."""
    named: dict[str, dict[int, Assignment]] = defaultdict(dict)
    for (topic, index), assignment in wanted.items():
        named[topic][index] = assignment
    outcomes = yield from change_topics(
        {topic: partial(_with_assignments, each, context.topic_ids.get(topic)) for topic, each in named.items()}
    )
    broken = {topic: outcome for topic, outcome in outcomes.items() if not isinstance(outcome, TopicNode)}
    for topic, error in broken.items():
        logger.error("the assignment of topic %s cannot be written: %r", topic, error)
    return {key: UnknownServerError(repr(broken[key[0]])) for key in wanted if key[0] in broken}


def _with_assignments(wanted: Mapping[int, Assignment], topic_id: uuid.UUID | None, node: TopicNode) -> TopicNode:
    return TopicNode(node.topic_id or topic_id, {**node.partitions, **wanted})


def _done(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[list[PartitionKey]]:
    """Return the partitions whose targets are in sync."""
    moving = [key for key, assignment in wanted.items() if is_being_reassigned(assignment)]
    if context.is_alter_partition:
        states = {key: context.states[key] for key in moving if key in context.states}
    else:
        states = yield from read_states(moving)
    return [
        key
        for key, assignment in wanted.items()
        if not is_being_reassigned(assignment) or (key in states and set(target(assignment)).issubset(states[key].isr))
    ]


# A


def _add(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[None]:
    yield from _raise_epochs(context, wanted)
    new = [ReplicaKey(*key, broker_id) for key, assignment in wanted.items() for broker_id in assignment.adding]
    # Replicas of a reassignment that is resumed exist already. They got their roles again with the new epoch.
    new = [each for each in new if context.phase_of(each) is ReplicaPhase.NON_EXISTENT]
    yield from replicas.change(context, new, ReplicaPhase.NEW)


def _raise_epochs(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[None]:
    """Increment the leader epochs of partitions, and tell all their replicas of the assignment."""
    batch = ControlBatch(context)
    remaining, anew = list(wanted), False
    while remaining:
        present = yield from present_states(context, remaining, anew=anew)
        raised: dict[PartitionKey, StateNode] = {}
        for key, found in present.items():
            if isinstance(found, StateNode):
                raised[key] = replace(found, leader_epoch=found.leader_epoch + 1)
            else:
                logger.error("the replicas of %s-%d are not told of its reassignment: %s", *key, found)
        done, remaining = yield from write_states(context, raised)
        for key, result in done.items():
            if isinstance(result, StateNode):
                assignment = wanted[key]
                batch.tell_roles(origin(assignment), key, result, assignment)
                batch.tell_roles(assignment.adding, key, result, assignment, is_new=True)
            else:
                logger.error("the replicas of %s-%d are not told of its reassignment: %r", *key, result)
        anew = True
    yield from send(batch.requests())


# B


def _finish(context: ControllerContext, wanted: Mapping[PartitionKey, Assignment]) -> Steps[None]:
    if not wanted:
        return
    added = [ReplicaKey(*key, broker_id) for key, assignment in wanted.items() for broker_id in assignment.adding]
    yield from replicas.change(context, added, ReplicaPhase.ONLINE)
    final = {key: Assignment(target(assignment)) for key, assignment in wanted.items()}
    for key, assignment in final.items():
        if assignment != wanted[key]:
            what = f"reassignment complete, {describe_assignment(wanted[key], assignment)}"
            context.note(Change(*key, what, context.cause, wanted[key], assignment))
        context.put_assignment(key, assignment)
    yield from _move_leaders(context, final)
    removed = [ReplicaKey(*key, broker_id) for key, assignment in wanted.items() for broker_id in assignment.removing]
    yield from _remove(context, removed)
    yield from _write_assignments(context, final)
    if not context.is_alter_partition:
        yield Unwatch([paths.partition_state(*key) for key in final])
    yield from _leave_order(context, lambda key, brokers: key in final and brokers == final[key].replicas)
    context.reassigning.difference_update(final)
    batch = ControlBatch(context)
    batch.inform_all(final)
    yield from send(batch.requests())


def _move_leaders(context: ControllerContext, final: Mapping[PartitionKey, Assignment]) -> Steps[None]:
    """Elect leaders among the new replicas where there is none of them; tell the others of the new replicas."""
    moved, stay = [], {}
    for key, assignment in final.items():
        state = context.states.get(key)
        leader = None if state is None else state.leader
        if leader in assignment.replicas and context.is_online(leader, key):
            stay[key] = assignment
        else:
            moved.append(key)
    yield from partitions.change(context, moved, PartitionPhase.ONLINE, Strategy.REASSIGN)
    yield from _raise_epochs(context, stay)


def _remove(context: ControllerContext, gone: Sequence[ReplicaKey]) -> Steps[None]:
    """Stop and delete replicas. Nobody waits for the brokers: one that is down keeps its log."""
    for phase in (
        ReplicaPhase.OFFLINE,
        ReplicaPhase.DELETION_STARTED,
        ReplicaPhase.DELETION_SUCCESSFUL,
        ReplicaPhase.NON_EXISTENT,
    ):
        yield from replicas.change(context, gone, phase)


# The order of a tool


class _Order(NamedTuple):
    """The request of a tool, and the version of the node that has it."""

    replicas: dict[PartitionKey, tuple[int, ...]]
    version: int


def _order(*, watch: bool = False) -> Steps[_Order | None]:
    """Read the order; one that cannot be read asks for nothing."""
    (node,) = yield from read([paths.REASSIGN_PARTITIONS], watch=watch)
    if node is None:
        return None
    try:
        return _Order(notices.decode_reassignment(node.data), node.stat.version)
    except ZnodeError as error:
        logger.error("the order to reassign partitions is ignored: %s", error)
        return _Order({}, node.stat.version)


def _leave_order(context: ControllerContext, leaves: Callable[[PartitionKey, tuple[int, ...]], bool]) -> Steps[None]:
    """Take partitions out of `/admin/reassign_partitions`, and delete it when none is left."""
    node = paths.REASSIGN_PARTITIONS
    while True:
        order = yield from _order()
        if order is None:
            return
        left = {key: brokers for key, brokers in order.replicas.items() if not leaves(key, brokers)}
        if len(left) == len(order.replicas) and left:
            return
        (outcome,) = yield from write(
            [[SetData(node, notices.encode_reassignment(left), order.version) if left else Delete(node, order.version)]]
        )
        if isinstance(outcome, BadVersionError):
            # A tool has changed it meanwhile.
            continue
        if isinstance(outcome, ZooKeeperError) and not isinstance(outcome, NoNodeError):
            logger.error("the node %s cannot be changed: %r", node, outcome)
        return


def listed(context: ControllerContext, keys: Iterable[PartitionKey] | None) -> dict[PartitionKey, Assignment]:
    """Return the partitions that are being reassigned: of those asked for, or of all."""
    wanted = sorted(context.reassigning) if keys is None else keys
    found = {key: context.assignment(key) for key in wanted}
    return {key: assignment for key, assignment in found.items() if is_being_reassigned(assignment)}

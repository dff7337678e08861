"""Brokers that come, go, start anew or change their addresses, and log directories that fail.

A broker that restarts gets a new registration epoch. So a restart is noticed even if the broker was never seen absent.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from broker.controller.cluster.events.isr import take_states
from broker.controller.cluster.machine import deletion, partitions, reassignment, replicas
from broker.controller.cluster.model.assignments import target
from broker.controller.cluster.model.context import (
    ControllerContext,
    PartitionKey,
    PartitionPhase,
    ReplicaKey,
    ReplicaPhase,
)
from broker.controller.cluster.model.effects import Connect, Disconnect, Steps, Unwatch, children, read, send, write
from broker.controller.cluster.model.requests import ControlBatch
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import brokers as broker_nodes
from broker.metadata.znodes import notices, paths
from broker.metadata.znodes.json_node import ZnodeError
from broker.zookeeper.interface import Delete, ZooKeeperError
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_USABLE = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
"""The answers of a broker whose log of the partition is open.

The second one tells that it has the role already: it was sent again, because the first answer was lost.
"""


def brokers_changed(context: ControllerContext, evidence: str = "") -> Steps[None]:
    """Look which brokers there are: `/brokers/ids` has changed.

    Args:
        evidence: what is known of a broker's end besides.
    """
    registered = yield from read_brokers()
    known = context.brokers
    new = {each: broker for each, broker in registered.items() if each not in known}
    dead = [each for each in known if each not in registered]
    bounced = {
        each: broker for each, broker in registered.items() if each in known and broker.epoch > known[each].epoch
    }
    if new or dead or bounced:
        logger.info("new brokers %s, gone %s, started anew %s", sorted(new), sorted(dead), sorted(bounced))
    former = {each: known[each].epoch for each in (*dead, *bounced)}
    if dead:
        yield Disconnect(dead)
    started = [*new.values(), *bounced.values()]
    if started:
        yield Connect(started)
    if new:
        context.brokers.update(new)
        context.cause = f"brokers {_named(new)} registered"
        yield from _started(context, list(new))
    if bounced:
        for each in bounced:
            del context.brokers[each]
        context.cause = f"brokers {_named(bounced)} started anew; their former registrations had epochs {former}"
        yield from _failed(context, list(bounced))
        context.brokers.update(bounced)
        yield from _started(context, list(bounced))
    if dead:
        for each in dead:
            del context.brokers[each]
        context.cause = (
            f"brokers {sorted(dead)} are not registered any more; their registrations had epochs {former}{evidence}"
        )
        yield Unwatch([paths.broker_id(each) for each in dead])
        yield from _failed(context, dead)


def process_died(context: ControllerContext, broker: BrokerRegistration) -> Steps[None]:
    """Delete the registration of a broker at whose address nothing listens, and do not wait for its session to expire.

    Only for brokers that watch their registration: should it live nevertheless, it stops leading when the node is gone,
    and registers again. A registration that is newer than the refused connections stays.
    """
    present = context.brokers.get(broker.broker_id)
    if present is None or present.epoch != broker.epoch:
        return
    node = paths.broker_id(broker.broker_id)
    (found,) = yield from read([node])
    if found is None or found.stat.created != broker.epoch:
        return
    (outcome,) = yield from write([[Delete(node, found.stat.version)]])
    if isinstance(outcome, ZooKeeperError):
        logger.warning("the registration of broker %d, whose process died, stays: %r", broker.broker_id, outcome)
        return
    endpoint = broker.endpoint(context.settings.inter_broker_listener)
    evidence = f"; nothing listened at {endpoint}, so that the registration was deleted"
    logger.warning("broker %d is taken for dead%s", broker.broker_id, evidence)
    yield from brokers_changed(context, evidence)


def registration_changed(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Look at the addresses of brokers: their nodes have changed."""
    registered = yield from read_brokers([each for each in broker_ids if each in context.brokers])
    changed = False
    for broker_id, broker in registered.items():
        known = context.brokers[broker_id]
        if broker.epoch == known.epoch and broker != known:
            context.brokers[broker_id] = broker
            changed = True
            yield Connect([broker])
    if changed:
        batch = ControlBatch(context)
        batch.inform_all()
        yield from send(batch.requests())


def log_dirs_failed(context: ControllerContext) -> Steps[None]:
    """Tell brokers all their roles that have lost a log directory, or roles: they answer which replicas they lost."""
    (names,) = yield from children([paths.LOG_DIR_EVENTS], watch=True)
    nodes = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
    found = yield from read(nodes)
    asked: set[int] = set()
    for path, node in zip(nodes, found, strict=True):
        try:
            if node is not None:
                broker_id = notices.decode_log_dir_event(path, node.data)
                asked.add(broker_id)
                reason = notices.log_dir_event_reason(node.data) or "it lost a log directory"
                logger.info("broker %d asks for its roles: %s", broker_id, reason)
        except ZnodeError as error:
            logger.error("%s", error)
    serving = [each for each in context.replicas_on(asked) if each.broker_id in context.brokers]
    if not context.is_alter_partition:
        # A leader that has lost its role no longer knows the ISR that it wrote, and its notice may not have arrived.
        context.cause = "the leader wrote it to ZooKeeper"
        yield from take_states(context, sorted({each.key for each in serving}))
    yield from replicas.tell_roles(context, serving)
    yield from deletion.delete_nodes(nodes)


def roles_answered(
    context: ControllerContext, broker_id: int, answers: Mapping[PartitionKey, ErrorCode]
) -> Steps[None]:
    """Take note which replicas of a broker are in failed log directories, by its answer to LeaderAndIsr.

    A replica that can be used again may be the only one of its partition, or the last in-sync one. Apache Kafka elects
    it when its broker starts anew.
    """
    before = context.offline_logs.get(broker_id, set())
    lost = {key for key, error in answers.items() if error is ErrorCode.KAFKA_STORAGE_ERROR}
    usable = {key for key, error in answers.items() if error in _USABLE}
    context.offline_logs[broker_id] = (before - usable) | lost
    back, new = before & usable, lost - before
    if back:
        context.cause = f"broker {broker_id} answered that {len(back)} replicas can be used again"
        yield from partitions.bring_online(context)
    if new:
        context.cause = f"broker {broker_id} answered that log directories of {len(new)} replicas are offline"
        yield from _offline(context, [ReplicaKey(*key, broker_id) for key in sorted(new)])


def read_brokers(broker_ids: Collection[int] | None = None) -> Steps[dict[int, BrokerRegistration]]:
    """Read the registrations of brokers, or of all brokers; those that are gone or cannot be read are left out."""
    if broker_ids is None:
        (names,) = yield from children([paths.BROKER_IDS], watch=True)
        broker_ids = [int(name) for name in names if name.isdecimal()]
    nodes = yield from read((paths.broker_id(each) for each in broker_ids), watch=True)
    found: dict[int, BrokerRegistration] = {}
    for broker_id, node in zip(broker_ids, nodes, strict=True):
        if node is None:
            continue
        try:
            found[broker_id] = broker_nodes.decode(broker_id, node.data, node.stat.created)
        except ZnodeError as error:
            logger.error("%s", error)
    return found


def _named(brokers: Mapping[int, BrokerRegistration]) -> str:
    return ", ".join(f"{each} (epoch {broker.epoch})" for each, broker in sorted(brokers.items()))


def _started(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Tell brokers all that they need, and give leaders to partitions that had none without them."""
    for each in broker_ids:
        context.offline_logs.pop(each, None)
    others = ControlBatch(context)
    others.inform(context.brokers.keys() - set(broker_ids), [])
    yield from send(others.requests())
    informed = ControlBatch(context)
    informed.inform(broker_ids, [key for key in context.states if key[0] not in context.deleting])
    yield from send(informed.requests())
    hosted = context.replicas_on(broker_ids)
    yield from replicas.change(context, hosted, ReplicaPhase.ONLINE)
    yield from partitions.bring_online(context)
    started = set(broker_ids)
    yield from reassignment.resume(
        context, [key for key in sorted(context.reassigning) if started.intersection(target(context.assignment(key)))]
    )
    yield from deletion.resume(context, {each.topic for each in hosted})


def _failed(context: ControllerContext, broker_ids: Collection[int]) -> Steps[None]:
    """Give other leaders to the partitions of brokers that are gone."""
    for each in broker_ids:
        context.offline_logs.pop(each, None)
        context.shutting_down.discard(each)
    yield from _offline(context, context.replicas_on(broker_ids))


def _offline(context: ControllerContext, gone: Collection[ReplicaKey]) -> Steps[None]:
    """Take replicas out of service that are not available any more."""
    deleted = [each for each in gone if each.topic in context.deleting]
    served = [each for each in gone if each.topic not in context.deleting]
    yield from partitions.change(context, context.without_available_leader(), PartitionPhase.OFFLINE)
    elected = yield from partitions.bring_online(context)
    yield from replicas.change(context, served, ReplicaPhase.OFFLINE)
    if deleted:
        started = [each for each in deleted if context.phase_of(each) is ReplicaPhase.DELETION_STARTED]
        yield from deletion.failed(context, started, "brokers with replicas of them are offline")
        deletion.hold(context, {each.topic for each in deleted}, "brokers with replicas of them are offline")
    if not served and all(isinstance(result, Exception) for result in elected.values()):
        # Nothing has told the brokers yet which ones are alive.
        batch = ControlBatch(context)
        batch.inform_all()
        yield from send(batch.requests())

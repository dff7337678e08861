"""Controlled shutdown: a broker that is about to stop gives its leaderships up first."""

from __future__ import annotations

from broker.controller.cluster.machine import partitions, replicas
from broker.controller.cluster.model.context import (
    ControllerContext,
    PartitionKey,
    PartitionPhase,
    ReplicaKey,
    ReplicaPhase,
)
from broker.controller.cluster.model.effects import Steps, send
from broker.controller.cluster.model.leaders import Strategy
from broker.controller.cluster.model.requests import ControlBatch
from kafkalog.protocol.errors import BrokerNotAvailableError, StaleBrokerEpochError

UNKNOWN_EPOCH = -1
"""The epoch of a broker that does not tell it (before 2.2)."""


def controlled_shutdown(context: ControllerContext, broker_id: int, broker_epoch: int) -> Steps[list[PartitionKey]]:
    """Carry out ControlledShutdown; return the partitions that the broker still leads.

    Raises:
        BrokerNotAvailableError: There is no such broker.
        StaleBrokerEpochError: It was registered anew after it had asked.
    """
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise BrokerNotAvailableError(f"Broker id {broker_id} does not exist.")
    if broker_epoch != UNKNOWN_EPOCH and broker_epoch < broker.epoch:
        raise StaleBrokerEpochError(
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker {broker_id}. "
            f"Current broker epoch is {broker.epoch}."
        )
    context.cause = f"broker {broker_id} (epoch {broker.epoch}) asked for a controlled shutdown"
    context.shutting_down.add(broker_id)
    hosted = [
        each.key
        for each in context.replicas_on([broker_id])
        if len(context.assignment(each.key).replicas) > 1
        and each.key in context.states
        and each.topic not in context.deleting
    ]
    led = [key for key in hosted if context.states[key].leader == broker_id]
    followed = [key for key in hosted if context.states[key].leader != broker_id]
    yield from partitions.change(context, led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
    # It stops to fetch before it leaves the ISRs, so that no leader takes it back.
    batch = ControlBatch(context)
    for key in followed:
        batch.stop(broker_id, key, delete=False)
    yield from send(batch.requests())
    yield from replicas.change(context, [ReplicaKey(*key, broker_id) for key in followed], ReplicaPhase.OFFLINE)
    return context.led_by(broker_id)

"""Replicas that were started anew while there was no controller.

A controller that is in office notices a broker that was started anew by the new epoch of its registration. One that
takes over has nothing to compare that epoch with. But each change of a partition's state is later than the
registrations of its in-sync replicas, because who registers anew leaves the ISR first. So a member of the ISR that has
registered after the last change of the state was started anew since. Epochs of brokers and times of changes are
numbers of transactions of ZooKeeper, so they can be compared.

A change of the state that is decided after such a registration, but before the controller has heard of it, hides it.
Leaders tell by AlterPartition in which lives the members of the ISR have fetched last (KIP-903), so the controller
refuses a change once the leader has heard of the new life. The registration is hidden if the leader has not heard of it
either. Followers with `inter.broker.protocol.version` before 3.5 do not tell their epochs, and before 2.7 leaders make
such changes without a controller.

Such a broker may have lost records with its power. If it goes on as the leader in the same epoch, followers cut their
logs off where its own ends now, and records of two lives have the same offsets and epoch. Apache Kafka is protected by
its slowness only: there a broker cannot register before its last session has expired.
"""

from __future__ import annotations

import logging

from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.effects import Steps
from broker.controller.cluster.model.leaders import first, led
from broker.controller.cluster.model.states import present_states, write_states
from broker.metadata.znodes.topics import StateNode

logger = logging.getLogger(__name__)


def settle(context: ControllerContext) -> Steps[None]:
    """Give new epochs to the partitions whose in-sync replicas were started anew.

    Call it before any broker gets a role. Replicas that stayed in sync lead, and those that were started anew leave
    the ISR until they have caught up. Where all of them were, the ISR stays: none of them knows more than the others.
    """
    remaining = [key for key, state in context.states.items() if _settled(context, key, state) is not None]
    before, anew = context.cause, False
    while remaining:
        present = yield from present_states(context, remaining, anew=anew)
        wanted: dict[PartitionKey, StateNode] = {}
        for key, found in present.items():
            if isinstance(found, StateNode):
                settled = _settled(context, key, found)
                if settled is not None:
                    wanted[key] = settled
            else:
                logger.error("replicas of %s-%d that were started anew are not taken account of: %s", *key, found)
        context.cause = f"{before} and found that in-sync replicas were started anew since the state had changed"
        done, remaining = yield from write_states(context, wanted)
        for key, result in done.items():
            if not isinstance(result, StateNode):
                logger.error("replicas of %s-%d that were started anew stay in sync: %r", *key, result)
        anew = True
    context.cause = before


def _settled(context: ControllerContext, key: PartitionKey, state: StateNode) -> StateNode | None:
    """Return the state without the replicas that were started anew, in a new epoch; None where it may stay."""
    live = context.online(key, state.isr)
    restarted = {each for each in live if context.brokers[each].epoch > state.modified}
    if not restarted:
        return None
    replicas = context.assignment(key).replicas
    # One that was removed may be in sync without being in the assignment any more. It would refuse to lead.
    staying = [each for each in live if each not in restarted and each in replicas]
    if staying:
        leader = state.leader if state.leader in staying else first(replicas, staying, staying)
        assert leader is not None, "all of them are live, in sync and assigned"
        return led(context, state, leader, tuple(each for each in state.isr if each not in restarted))
    if state.leader in restarted:
        return led(context, state, state.leader)
    # The leader is not alive, so there is an election anyway.
    return None

"""Reads and changes the nodes of partitions' states.

A change is a write on condition that the node still has the version that the change is based on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.effects import Steps, read, write
from broker.metadata.znodes import paths, topics
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import StateNode
from broker.zookeeper.interface import BadVersionError, SetData, Stat, ZooKeeperError

logger = logging.getLogger(__name__)


class StateChangeError(Exception):
    """A partition, or a replica, cannot change as it was asked to."""


def read_states(keys: Iterable[PartitionKey], *, watch: bool = False) -> Steps[dict[PartitionKey, StateNode]]:
    """Read the states of partitions; those without a state, or with one that cannot be read, are left out."""
    wanted = list(keys)
    nodes = yield from read((paths.partition_state(*key) for key in wanted), watch=watch)
    found: dict[PartitionKey, StateNode] = {}
    for key, node in zip(wanted, nodes, strict=True):
        if node is None or not node.data:
            continue
        try:
            found[key] = topics.decode_state(*key, node.data, node.stat.version, node.stat.modified)
        except ZnodeError as error:
            logger.error("%s", error)
    return found


def present_states(
    context: ControllerContext, keys: Iterable[PartitionKey], *, anew: bool
) -> Steps[dict[PartitionKey, StateNode | StateChangeError]]:
    """Return the states that changes of partitions are based on, or why there can be no change.

    Where leaders change the ISR only through this controller, its own knowledge is as new as ZooKeeper's.

    Args:
        anew: read the states although they are known, because a change has failed for its version.
    """
    wanted = list(keys)
    known = (
        {} if anew or not context.is_alter_partition else {k: context.states[k] for k in wanted if k in context.states}
    )
    read_now = yield from read_states(key for key in wanted if key not in known)
    found: dict[PartitionKey, StateNode | StateChangeError] = {}
    for key in wanted:
        state = known.get(key) or read_now.get(key)
        if state is None:
            found[key] = StateChangeError(f"Partition {key[0]}-{key[1]} has no leader and no ISR in ZooKeeper.")
        elif state.controller_epoch > context.epoch:
            found[key] = StateChangeError(
                f"The state of partition {key[0]}-{key[1]} was written by a later controller, of epoch "
                f"{state.controller_epoch}; this one has epoch {context.epoch}."
            )
        else:
            found[key] = state
    return found


def write_states(
    context: ControllerContext, states: Mapping[PartitionKey, StateNode]
) -> Steps[tuple[dict[PartitionKey, StateNode | ZooKeeperError], list[PartitionKey]]]:
    """Change the states of partitions; each state's partition epoch is the version that it is based on.

    The states that were written are those of the context from then on.

    Returns:
        The new states, or errors, and the partitions whose nodes had other versions.
    """
    written = {key: replace(state, controller_epoch=context.epoch) for key, state in states.items()}
    outcomes = yield from write(
        [SetData(paths.partition_state(*key), topics.encode_state(state), state.partition_epoch)]
        for key, state in written.items()
    )
    done: dict[PartitionKey, StateNode | ZooKeeperError] = {}
    stale: list[PartitionKey] = []
    for (key, state), outcome in zip(written.items(), outcomes, strict=True):
        if isinstance(outcome, BadVersionError):
            stale.append(key)
        elif isinstance(outcome, ZooKeeperError):
            done[key] = outcome
        else:
            (stat,) = outcome
            assert isinstance(stat, Stat)
            found = replace(state, partition_epoch=stat.version, modified=stat.modified)
            done[key] = found
            context.put_state(key, found)
    return done, stale

"""Blocks of producer ids, which brokers ask the controller for since 3.0 (KIP-730)."""

from __future__ import annotations

from broker.controller.cluster.model.context import ControllerContext
from broker.controller.cluster.model.effects import Steps, read, write
from broker.metadata.znodes import paths
from broker.metadata.znodes.cluster import ProducerIdBlock, decode_block, encode_block
from broker.metadata.znodes.json_node import ZnodeError
from broker.zookeeper.interface import BadVersionError, Create, SetData, ZooKeeperError
from kafkalog.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError, UnknownServerError

BLOCK_SIZE = 1000
LARGEST = (1 << 63) - 1


def allocate_producer_ids(context: ControllerContext, broker_id: int, broker_epoch: int) -> Steps[ProducerIdBlock]:
    """Carry out AllocateProducerIds; return the block.

    Brokers of older versions take blocks from the same node themselves, so the write has a condition.

    Raises:
        BrokerIdNotRegisteredError: There is no such broker.
        StaleBrokerEpochError: It was registered anew.
        UnknownServerError: The node cannot be read or written, or no ids are left.
    """
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"Broker {broker_id} is not registered.")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpochError(f"Broker {broker_id} is not registered with epoch {broker_epoch}.")
    while True:
        (node,) = yield from read([paths.PRODUCER_ID_BLOCK])
        try:
            first = decode_block(node.data).last + 1 if node is not None and node.data else 0
        except ZnodeError as error:
            raise UnknownServerError(str(error)) from error
        if first + BLOCK_SIZE - 1 > LARGEST:
            raise UnknownServerError("All producer ids are used up.")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        data = encode_block(block)
        change = (
            Create(paths.PRODUCER_ID_BLOCK, data)
            if node is None
            else SetData(paths.PRODUCER_ID_BLOCK, data, node.stat.version)
        )
        (outcome,) = yield from write([[change]])
        if not isinstance(outcome, ZooKeeperError):
            return block
        if not isinstance(outcome, BadVersionError):
            raise UnknownServerError(repr(outcome))

"""Blocks of producer ids."""

from __future__ import annotations

import pytest

from broker.controller.cluster.events.producer_ids import allocate_producer_ids
from broker.metadata.znodes import paths
from broker.metadata.znodes.cluster import ProducerIdBlock, decode_block, encode_block
from kafkalog.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError, UnknownServerError
from tests.broker.controller.cluster.world import World


def made() -> World:
    world = World()
    world.take_over()
    return world


def allocate(world: World, broker: int = 2) -> ProducerIdBlock:
    return world.run(allocate_producer_ids(world.context, broker, world.context.brokers[broker].epoch))


def test_blocks_follow_each_other() -> None:
    world = made()
    assert allocate(world) == ProducerIdBlock(2, 0, 999)
    assert allocate(world, 3) == ProducerIdBlock(3, 1000, 1999)
    assert decode_block(world.tree.read(paths.PRODUCER_ID_BLOCK).data) == ProducerIdBlock(3, 1000, 1999)


def test_a_block_that_another_broker_has_taken_meanwhile_is_not_given_again() -> None:
    world = made()
    allocate(world)

    def take() -> None:
        world.on_write = lambda: None
        world.make(paths.PRODUCER_ID_BLOCK, encode_block(ProducerIdBlock(1, 1000, 1999)))

    world.on_write = take
    assert allocate(world).first == 2000


def test_refusals() -> None:
    world = made()
    with pytest.raises(BrokerIdNotRegisteredError):
        world.run(allocate_producer_ids(world.context, 9, 1))
    with pytest.raises(StaleBrokerEpochError):
        world.run(allocate_producer_ids(world.context, 2, world.context.brokers[2].epoch + 1))
    world.make(paths.PRODUCER_ID_BLOCK, encode_block(ProducerIdBlock(1, (1 << 63) - 1000, (1 << 63) - 1)))
    with pytest.raises(UnknownServerError):
        allocate(world)
    world.make(paths.PRODUCER_ID_BLOCK, b"{")
    with pytest.raises(UnknownServerError):
        allocate(world)

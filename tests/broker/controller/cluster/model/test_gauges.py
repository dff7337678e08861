"""Numbers for metrics."""

from __future__ import annotations

from dataclasses import replace

from broker.controller.cluster.events import brokers
from broker.controller.cluster.model import gauges
from broker.metadata.znodes.topics import Assignment
from tests.broker.controller.cluster.world import World


def test_what_a_cluster_looks_like() -> None:
    world = World()
    world.make_topic("words", [(1, 2), (3,), (2, 1)])
    world.make_topic("gone", [(3,)])
    world.take_over()
    context = world.context
    counts = (gauges.topics, gauges.partitions, gauges.brokers, gauges.offline_partitions, gauges.imbalanced_partitions)
    assert [each(context) for each in counts] == [2, 4, 3, 0, 0]
    context.deleting.add("gone")
    world.deregister(3)
    world.run(brokers.brokers_changed(context))
    context.put_state(("words", 0), replace(context.states["words", 0], leader=2))
    # One has no leader, and another is not led by its preferred replica. The topic that is deleted does not count.
    assert [each(context) for each in counts] == [2, 4, 2, 1, 2]
    assert gauges.topics_to_delete(context) == 1
    context.put_assignment(("words", 2), Assignment((1, 2), (1,)))
    context.reassigning.add(("words", 2))
    assert gauges.reassigning_partitions(context) == 1
    assert gauges.imbalanced_partitions(context) == 2
    context.put_state(("words", 2), replace(context.states["words", 2], isr=(2,)))
    assert gauges.imbalanced_partitions(context) == 3

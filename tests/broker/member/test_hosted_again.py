"""Test what a member does about a replica that it could not host at first; on simulated time."""

from __future__ import annotations

import errno
import random
from pathlib import Path

from broker.metadata.model import PartitionState
from broker.metadata.znodes import paths
from broker.metadata.znodes.notices import decode_log_dir_event
from kafkalog.protocol.errors import ErrorCode
from tests.broker.log.support import FaultyOps
from tests.broker.member.simulated import SETTINGS, Cluster, with_cluster
from tests.simulation.host import SimulatedHost

T0 = ("t", 0)


def test_the_controller_is_told_when_the_replica_can_be_used(tmp_path: Path) -> None:
    """The controller takes the replica for offline since the broker's answer, and would not elect it."""

    async def work(cluster: Cluster) -> None:
        ops = FaultyOps(errno.EMFILE)
        settings = {**SETTINGS, "broker.id": "4"}
        host = SimulatedHost(cluster.network, "four", tmp_path, settings, random.Random(4), cluster.ensemble, ops)
        await host.start()
        cluster.hosts[4] = host
        ops.fail = {"open": 1}
        cluster.assigned[T0] = PartitionState((4, 1), (4, 1), 4, 0, 0, cluster.epoch)
        assert (await cluster.tell_roles(T0, to=[4], is_new=True)) == {4: [ErrorCode.KAFKA_STORAGE_ERROR]}
        assert not cluster.ensemble.names(paths.LOG_DIR_EVENTS)
        ops.heal()
        await cluster.until(lambda: host.server.replicas.is_online(*T0), "it is hosted")
        await cluster.until(lambda: len(cluster.ensemble.names(paths.LOG_DIR_EVENTS)) == 1, "the notice is written")
        (name,) = await cluster.zookeeper.children(paths.LOG_DIR_EVENTS)
        node = await cluster.zookeeper.get(f"{paths.LOG_DIR_EVENTS}/{name}")
        assert node is not None
        assert decode_log_dir_event(name, node.data) == 4
        # The answer to the roles that the controller sends then: the replica can be used.
        assert (await cluster.tell_roles(T0, to=[4])) == {4: [ErrorCode.STALE_CONTROLLER_EPOCH]}

    with_cluster(tmp_path, work)

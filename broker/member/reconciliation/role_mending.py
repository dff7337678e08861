"""Mends what differs between the roles of this broker and what ZooKeeper says of them.

- The controller is asked for all roles of this broker, by the notice with which a broker tells of a failed log
  directory. Controllers of Apache Kafka know it as well, so no other request is needed.
- A role that the cluster does not assign is given up.
- A stray is renamed. It is removed after `kafkalog.log.stray.retention.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from broker.log.directories.strays import mark_stray
from broker.member.reconciliation.role_check import Kind
from broker.member.reconciliation.role_survey import Difference, PartitionKey, present
from broker.metadata.znodes import notices, paths
from broker.replica.isr.keeper import IsrDecision, IsrKeeper
from broker.replica.manager import ReplicaManager
from broker.zookeeper.interface import ZooKeeper
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage.properties import Stray

logger = logging.getLogger(__name__)

NAMED = 5
"""The number of partitions that a message names."""


class RoleMending:
    """Brings the roles of this broker to what ZooKeeper says. Used on the event loop's thread only.

    Args:
        broker_id: the id of this broker.
        zookeeper: its session.
        replicas: its partitions.
        isr: keeps the ISRs of what it leads.
        retention_ms: how long strays are kept; negative for ever.
    """

    def __init__(
        self, broker_id: int, zookeeper: ZooKeeper, replicas: ReplicaManager, isr: IsrKeeper, retention_ms: int
    ) -> None:
        self._broker_id = broker_id
        self._zookeeper = zookeeper
        self._replicas = replicas
        self._isr = isr
        self._retention_ms = retention_ms

    async def mend(self, found: Mapping[PartitionKey, Difference], *, may_set_aside: bool) -> None:
        """Mend what differs, unless it has changed here meanwhile.

        Args:
            found: what differs, by partition.
            may_set_aside: whether strays are set aside.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """
        by_kind: dict[Kind, dict[PartitionKey, Difference]] = {kind: {} for kind in Kind}
        for key, each in found.items():
            by_kind[each.finding.kind][key] = each
        for key, each in by_kind[Kind.RESIGN].items():
            if present(self._replicas, *key) == each.present:
                logger.warning("%s-%d is given up: %s", *key, each.finding.what)
                self._replicas.stop_partition(*key)
        for key, each in by_kind[Kind.ADOPT].items():
            self._adopt(key, each)
        if asked := by_kind[Kind.ASK]:
            await self._ask(asked)
        if may_set_aside and (strays := by_kind[Kind.SET_ASIDE]):
            await self._set_aside(strays)

    def _adopt(self, key: PartitionKey, found: Difference) -> None:
        partition, state = self._replicas.get(*key), found.state
        if partition is not None and state is not None and present(self._replicas, *key) == found.present:
            logger.warning("%s-%d: %s", *key, found.finding.what)
            self._isr.adopt(partition, IsrDecision(state.leader, state.leader_epoch, state.partition_epoch, state.isr))

    async def _ask(self, found: Mapping[PartitionKey, Difference]) -> None:
        told = [f"{topic}-{index}: {each.finding.what}" for (topic, index), each in list(found.items())[:NAMED]]
        if len(found) > NAMED:
            told.append(f"and {len(found) - NAMED} more")
        reason = "; ".join(told)
        logger.warning("The controller is asked for the roles of this broker. %s", reason)
        data = notices.encode_log_dir_event(self._broker_id, reason)
        await self._zookeeper.create(paths.LOG_DIR_EVENT_PREFIX, data, is_sequential=True)

    async def _set_aside(self, found: Mapping[PartitionKey, Difference]) -> None:
        replicas, logs = self._replicas, self._replicas.logs
        now_ms = replicas.runtime.now_ms()
        for key, (finding, before, _) in found.items():
            log = before.log
            assert log is not None
            stray = Stray(now_ms, finding.what)
            try:
                await replicas.runtime.workers.run(partial(mark_stray, log.dir, stray, logs.ops))
                # The controller may have assigned it meanwhile.
                if present(self._replicas, *key) == before:
                    if replicas.get(*key) is not None:
                        # It has had a role, and has lost it together with the registration.
                        replicas.stop_partition(*key)
                    logs.set_aside(*key, finding.what, stray)
                    replicas.retry(*key)
            except (OSError, KafkaStorageError) as error:
                logger.error("%s-%d cannot be set aside: %s", *key, error)
        try:
            await replicas.runtime.workers.run(logs.sync_directories)
        except KafkaStorageError as error:
            logger.error("replicas that were set aside may come back after a power failure: %s", error)

    async def remove_strays(self) -> None:
        """Remove the strays that were kept for long enough."""
        replicas = self._replicas
        if len(replicas.logs.strays):
            now_ms = replicas.runtime.now_ms()
            await replicas.runtime.workers.run(lambda: replicas.logs.strays.remove_due(now_ms, self._retention_ms))

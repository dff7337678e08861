"""Looks now and then whether this broker has the roles that ZooKeeper says it has, and sets strays aside.

It forgets topics that ZooKeeper does not have any more, too (`gone_topics`).

A look reads the nodes of all topics, and the states of the partitions that are assigned to this broker, some at a time.
What differs (`role_survey`) is looked at a second time after a pause, because a decision may just be on its way. What
differs then, too, and has not changed here meanwhile, is mended (`role_mending`).

Nothing is done while ZooKeeper does not answer, or before the controller has told this broker of the partitions, if
ZooKeeper has any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.member.control.control import Control, PublishedStore
from broker.member.reconciliation.gone_topics import GoneTopics
from broker.member.reconciliation.role_mending import RoleMending
from broker.member.reconciliation.role_survey import RoleSurvey
from broker.metadata.znodes import paths
from broker.replica.isr.keeper import IsrKeeper
from broker.replica.manager import ReplicaManager
from broker.zookeeper.interface import ZooKeeper, ZooKeeperError

logger = logging.getLogger(__name__)

SOON_S = 30.0
"""The longest pause before the first look of a broker's life, and before one that follows a change."""
LEAST_S = 0.1
"""The shortest pause between two looks."""
CONFIRM_S = 5.0
"""The pause before what differs is looked at again."""


class Reconciliation:
    """Keeps the roles of this broker as ZooKeeper has them. Used on the event loop's thread only.

    Args:
        broker_id: the id of this broker.
        broker_epoch: returns its epoch; negative while it is not registered.
        zookeeper: its session.
        control: carries out what the controller tells.
        store: the cluster's metadata.
        replicas: its partitions.
        isr: keeps the ISRs of what it leads.
        interval_s: how often to look; negative for never.
        retention_ms: how long strays are kept; negative for ever.

    Attributes:
        differences: how many replicas differed from what ZooKeeper says.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        zookeeper: ZooKeeper,
        control: Control,
        store: PublishedStore,
        replicas: ReplicaManager,
        isr: IsrKeeper,
        *,
        interval_s: float,
        retention_ms: int,
    ) -> None:
        self._zookeeper = zookeeper
        self._broker_epoch = broker_epoch
        self._control = control
        self._runtime = replicas.runtime
        self._gone_topics = GoneTopics(zookeeper, store)
        self._survey = RoleSurvey(broker_id, zookeeper, replicas)
        self._mending = RoleMending(broker_id, zookeeper, replicas, isr, retention_ms)
        self._interval_s = interval_s
        self._task: asyncio.Task[None] | None = None
        self.differences = 0

    def start(self) -> None:
        """Look from now on."""
        if self._interval_s >= 0:
            self._task = self._runtime.loop.create_task(self._run())

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Inside

    async def _run(self) -> None:
        interval = max(self._interval_s, LEAST_S)
        soon = min(interval, SOON_S)
        pause, again = soon, soon
        while True:
            # Brokers that were started together do not look at the same time.
            await asyncio.sleep(pause * self._runtime.random.uniform(0.9, 1.1))
            pause = soon
            if self._broker_epoch() < 0:
                continue
            try:
                # A controller tells of partitions. Where there are none it says nothing, and nothing is waited for.
                if not self._control.has_metadata and await self._zookeeper.children(paths.TOPICS):
                    continue
                has_gone = await self._gone_topics.look()
                if await self._look() or has_gone:
                    # Something that cannot be mended must not keep the controller busy.
                    pause, again = again, min(2 * again, interval)
                else:
                    pause, again = interval, soon
            except ZooKeeperError as error:
                logger.debug("the roles of this broker cannot be compared with ZooKeeper at present: %r", error)
            except Exception:
                logger.exception("the roles of this broker cannot be compared with ZooKeeper. Trying again")

    async def _look(self) -> bool:
        """Compare, and mend what differs; return whether something did."""
        epoch = self._broker_epoch()
        first = await self._survey.of_all()
        if first.found:
            await asyncio.sleep(CONFIRM_S)
            again = await self._survey.of({topic for topic, _ in first.found})
            confirmed = {
                key: each
                for key, each in again.found.items()
                if key in first.found and each.finding.kind is first.found[key].finding.kind
            }
            if self._broker_epoch() == epoch:
                self.differences += len(confirmed)
                has_any = first.has_any or again.has_any
                await self._mending.mend(confirmed, may_set_aside=self._control.has_roles or not has_any)
        await self._mending.remove_strays()
        return bool(first.found)

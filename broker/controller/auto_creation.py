"""Create topics that clients ask about and that do not exist (`auto.create.topics.enable`), each once at a time.

A creation goes on when its request waits for it no longer: what is sent to ZooKeeper may be carried out, and then the
rest is to be done as well. Source: `AutoTopicCreationManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from broker.controller.decisions.planning import NewTopic
from broker.controller.topics import Admit, TopicController
from broker.metadata.model import TopicState
from kafkalog.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_Made = dict[str, TopicState | KafkaError]


class AutoCreation:
    """The creations that are under way."""

    def __init__(self, topics: TopicController) -> None:
        self._topics = topics
        self._creations: dict[str, asyncio.Task[_Made]] = {}

    async def create(self, names: Collection[str], admit: Admit, patience: float | None) -> _Made:
        """Create topics, unless that is under way; return what has become of them after `patience` seconds at most.

        Topics whose creation has not ended by then are missing.

        Args:
            names: The topics.
            admit: As for `TopicController.create`.
            patience: The seconds to wait; None to wait for the end.
        """
        if new := [NewTopic(name) for name in names if name not in self._creations]:
            task = asyncio.get_running_loop().create_task(self._topics.create(new, admit=admit, wait_ms=0))
            for topic in new:
                self._creations[topic.name] = task
            task.add_done_callback(self._ended)
        tasks = {self._creations[name] for name in names}
        done, _ = await asyncio.wait(tasks, timeout=patience)
        made: _Made = {}
        for task in done:
            made |= task.result()
        return {name: made[name] for name in names if name in made}

    def _ended(self, task: asyncio.Task[_Made]) -> None:
        self._creations = {name: other for name, other in self._creations.items() if other is not task}
        if not task.cancelled() and (error := task.exception()) is not None:
            # The request may not have waited for it.
            logger.warning("topics could not be created automatically: %s", error)

    async def stop(self, patience: float) -> None:
        """Wait `patience` seconds for the creations that are under way, so that no log is made later; end the rest."""
        if tasks := set(self._creations.values()):
            _, left = await asyncio.wait(tasks, timeout=patience)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

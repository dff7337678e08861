"""Create missing topics that clients ask about (`auto.create.topics.enable`).

While a topic is being created, further requests for it wait for the same creation. A creation goes on after its request
has stopped waiting: ZooKeeper may carry out what was sent to it, and then the rest has to be done as well. It ends with
an error if ZooKeeper does not answer. Source: `AutoTopicCreationManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial

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
        """Create topics that are not being created yet; return the results that come within `patience` seconds.

        The result lacks topics whose creation has not ended by then.

        Args:
            names: The topics.
            admit: As for `TopicController.create`.
            patience: The seconds to wait; None to wait for the end.
        """
        if new := [name for name in names if name not in self._creations]:
            topics = [NewTopic(name) for name in new]
            task = asyncio.get_running_loop().create_task(self._topics.create(topics, admit=admit, wait_ms=0))
            self._creations |= dict.fromkeys(new, task)
            task.add_done_callback(partial(self._ended, new))
        tasks = {self._creations[name] for name in names}
        done, _ = await asyncio.wait(tasks, timeout=patience)
        made: _Made = {}
        for task in done:
            made |= task.result()
        return {name: made[name] for name in names if name in made}

    def _ended(self, names: Sequence[str], task: asyncio.Task[_Made]) -> None:
        for name in names:
            del self._creations[name]
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

"""The cluster's topics as groups of the consumer protocol see them (`context.Topics`).

Regular expressions are matched on a worker, one at a time: an expression of a hostile member may take some tenths of a
second, and so may a good one if there are many topics. Groups take turns (`turns.Turns`), so that a group with many
expressions delays only itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from broker.coordinator.group.kip848.context import Matched
from broker.coordinator.group.kip848.model import TopicMetadata
from broker.coordinator.group.kip848.topics.topic_regex import matching
from broker.coordinator.group.kip848.topics.turns import Turns
from broker.metadata.cache import MetadataCache
from broker.metadata.model import TopicState
from broker.system.workers import Workers
from kafkalog.protocol.errors import InvalidRegularExpressionError

REGEXES_KEPT = 256
"""The number of expressions whose matches are kept here; each group keeps the matches of its own as well."""


class ClusterTopics:
    """The topics as the metadata cache has them.

    The version is the registry's revision in which a change of the topics was first seen, so it also grows over
    restarts.
    """

    def __init__(self, cache: MetadataCache, workers: Workers) -> None:
        self._cache = cache
        self._workers = workers
        self._seen: Mapping[str, TopicState] | None = None
        self._version = -1
        self._names: dict[UUID, str] = {}
        self._turns = Turns()
        self._matched: dict[str, Matched | InvalidRegularExpressionError] = {}
        self._known: dict[str, int] = {}
        """The version of the metadata in which each expression was matched."""

    @property
    def version(self) -> int:
        self._look()
        return self._version

    def get(self, name: str) -> TopicMetadata | None:
        return self.existing((name,)).get(name)

    def existing(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        topics = self._cache.image.topics
        return {
            name: TopicMetadata(topics[name].topic_id, name, len(topics[name].partitions))
            for name in names
            if name in topics
        }

    def name_of(self, topic_id: UUID) -> str | None:
        self._look()
        return self._names.get(topic_id)

    def matching(self, regex: str) -> Matched | None:
        found = self._matched.get(regex)
        if isinstance(found, InvalidRegularExpressionError):
            if self._known[regex] != self.version:
                # The expression may be valid for the topics as they are now.
                return None
            raise InvalidRegularExpressionError(*found.args)
        return found

    async def match(self, group_id: str, regex: str) -> Matched:
        """Match an expression against the current topics, in the group's turn; keep the result for `matching`.

        Raises:
            InvalidRegularExpressionError: the expression is refused.
        """
        if self._known.get(regex) != self.version:
            async with self._turns.turn(group_id):
                # Another group may have matched the same expression meanwhile.
                if self._known.get(regex) != self.version:
                    await self._work_out(regex)
        found = self._matched[regex]
        if isinstance(found, InvalidRegularExpressionError):
            raise InvalidRegularExpressionError(*found.args)
        return found

    async def _work_out(self, regex: str) -> None:
        version, names = self.version, tuple(self._cache.image.topics)
        found: Matched | InvalidRegularExpressionError
        try:
            topics = await self._workers.run(_match, regex, names)
            found = Matched(topics, version)
        except InvalidRegularExpressionError as error:
            found = error
        # The latest ones are at the end.
        self._matched.pop(regex, None)
        self._matched[regex], self._known[regex] = found, version
        while len(self._matched) > REGEXES_KEPT:
            del self._known[oldest := next(iter(self._matched))], self._matched[oldest]

    def _look(self) -> None:
        state = self._cache.image
        # A state shares its topics with the one before if they did not change.
        if state.topics is not self._seen:
            self._seen = state.topics
            self._version = max(state.revision, self._version + 1)
            self._names = {topic.topic_id: name for name, topic in state.topics.items()}


def _match(regex: str, names: tuple[str, ...]) -> frozenset[str]:
    """Match on a worker."""
    return frozenset(matching(regex, names))

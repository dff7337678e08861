"""One process of a mirror: a member of the group in the source, and the tasks that the group gives it.

The worker keeps no state that the target does not have. When anything fails, `supervisor` throws it away and begins
another one, which goes on behind the last committed transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigResource
from kafkalog.client.closing import Closing
from kafkalog.client.consumer import Consumer, RebalanceListener
from kafkalog.client.consumer.fetcher.fetch_collector import FetchedBatches
from kafkalog.client.transactions.requests import TransactionRequests
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.assignor import task_assignor, task_of
from kafkalog.mirror.copying.batches import batches
from kafkalog.mirror.copying.joining import JOINED_BYTES, joined
from kafkalog.mirror.copying.limiter import Limiter
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.copying.translation import Run
from kafkalog.mirror.internal_topics.stored import read_positions, read_syncs, returning_topics
from kafkalog.mirror.keeping.agreement import kept_positions
from kafkalog.mirror.keeping.sender import Place
from kafkalog.mirror.keeping.task import KeptTask
from kafkalog.mirror.keeping.topics import adopt, mirrors_of
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import TopicFollower
from kafkalog.protocol.errors import KafkaError
from kafkalog.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

_POLL_S = 0.25
_FIXED = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    # A log whose beginning was deleted goes on at its new beginning. The start of new partitions is sought.
    "auto.offset.reset": "earliest",
    "exclude.internal.topics": "true",
}


class Worker(Closing, RebalanceListener):
    """Mirror until `run` ends. `progress` tells other threads how far it is."""

    def __init__(self, settings: MirrorSettings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._source, self._target = Admin(settings.source_client), Admin(settings.target_client)
        self._follower = TopicFollower(settings, self._source, self._target)
        self._consumer = Consumer(
            {
                "metadata.max.age.ms": str(settings.refresh_topics * 1000),
                # As Kafka Connect: others go on soon with what a process had that died.
                "session.timeout.ms": "10000",
                **settings.source_client,
                **_FIXED,
                "group.id": settings.group_id,
                "partition.assignment.strategy": task_assignor(settings.tasks),
            }
        )
        self._check_crcs = self._consumer.config.client.check_crcs
        self._tasks: dict[int, MirrorTask | KeptTask] = {}
        self._stated: dict[str, bool] = {}
        """Whether the target takes the offsets of a topic as they are stated; only of topics that keep them."""
        self._joined_bytes: dict[str, int] = {}
        """How large a batch of joined ones may be, by topic; only of topics that do not keep offsets."""
        self._has_begun = False
        self._commit_at = 0.0
        self._limiter = Limiter(settings.max_bytes_per_second, time.monotonic())
        self._pool = ThreadPoolExecutor(settings.tasks, "mirror-commit")

    def run(self, stop: threading.Event) -> None:
        """Mirror until `stop` is set, then commit.

        Raises:
            Exception: Something has failed. What was not committed is mirrored again by the next worker.
        """
        self._follower.make_own()
        returning = self._returning()
        if returning:
            logger.warning(
                "topics that the mirror from %s to %s writes are left out: %s",
                self._settings.target,
                self._settings.source,
                ", ".join(sorted(returning)),
            )
        self._consumer.subscribe(pattern=self._settings.mirrored(returning), listener=self)
        self._commit_at = time.monotonic()
        resume_at = 0.0
        while not stop.is_set():
            now = time.monotonic()
            if now >= self._commit_at:
                self._commit()
                self._commit_at = time.monotonic() + self._settings.commit_interval_ms / 1000
            if now < resume_at:
                self._wait(resume_at - now)
            elif (found := self._consumer.poll_fetched(min(_POLL_S, max(self._commit_at - now, 0.0)))) is not None:
                resume_at = time.monotonic() + self._limiter.take(self._mirror(found), time.monotonic())
        self._commit()

    def close(self) -> None:
        """Leave the group, and close all connections; open transactions are left to their next owners."""
        self._drop_tasks()
        self._pool.shutdown()
        self._consumer.close(5.0)
        for admin in (self._source, self._target):
            admin.close()

    # Records

    def _mirror(self, found: FetchedBatches) -> int:
        """Send what was fetched; return its size in bytes."""
        tp = found.partition
        task = self._tasks[task_of(tp, self._settings.tasks)]
        size = 0
        keep = self._stated.get(tp.topic, False)
        made = batches(found.fetched, found.offset, check_crcs=self._check_crcs, keep=keep)
        if most := self._joined_bytes.get(tp.topic):
            made = joined(made, most)
        for batch, next_offset in made:
            if batch is not None:
                size += len(batch.data)
                self._progress.count(tp, batch)
                task.send(tp, batch)
            task.advance(tp, next_offset)
        if found.next_offset > found.offset:
            task.advance(tp, found.next_offset)
        self._progress.fetched(tp, found.fetched)
        return size

    def _wait(self, seconds: float) -> None:
        """Wait for the limit of bytes, and take part in the group meanwhile."""
        assigned = tuple(self._consumer.assignment())
        self._consumer.pause(*assigned)
        self._consumer.poll_fetched(min(seconds, _POLL_S))
        still = self._consumer.assignment()
        self._consumer.resume(*(tp for tp in assigned if tp in still))

    def _commit(self) -> None:
        """Commit all tasks, at the same time."""
        dirty = [task for task in self._tasks.values() if task.dirty]
        positions = {}
        for committed in self._pool.map(lambda task: task.commit(), dirty):
            for tp, done in committed.items():
                self._progress.committed(tp, done)
                positions[tp] = done.next_offset
        if positions:
            # These only show how far the mirror is. A worker begins at the position that the target has.
            self._consumer.commit_async(positions)

    # The group

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Take the tasks of these partitions over, and go on at the positions that the target has."""
        by_task: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in partitions:
            by_task[task_of(tp, self._settings.tasks)].append(tp)
        topics = {tp.topic for tp in partitions}
        self._follower.make(topics)
        if self._settings.keeps_offsets:
            positions, runs = self._keep(by_task, topics)
        else:
            positions, runs = self._translate(by_task)
            self._joined_bytes = self._limits(topics)
        self._progress.assigned(partitions, positions, runs)
        self._seek(partitions, positions)
        logger.info("mirroring %d partitions in %d tasks", len(partitions), len(by_task))

    def _translate(
        self, by_task: dict[int, list[TopicPartition]]
    ) -> tuple[dict[TopicPartition, int], list[tuple[TopicPartition, Run]]]:
        """Begin tasks that write transactions; return the positions, and what is known of the offsets."""
        for number in by_task:
            self._tasks[number] = MirrorTask(self._settings, number)
        for _ in self._pool.map(lambda task: task.start(), self._tasks.values()):
            pass
        positions = read_positions(self._settings) if by_task else {}
        syncs = read_syncs(self._settings) if by_task and self._settings.emit_checkpoints else []
        return positions, [(sync.partition, Run(sync.upstream, sync.downstream, 1)) for sync in syncs]

    def _limits(self, topics: Collection[str]) -> dict[str, int]:
        """Return how large batches of joined ones may be; topics whose configuration may not be read are left out."""
        named = {ConfigResource.topic(self._settings.naming.remote(topic)): topic for topic in topics}
        try:
            configs = self._target.describe_configs(list(named)) if named else {}
        except KafkaError as error:
            logger.info("small batches are sent one by one: max.message.bytes of topics is not known: %s", error)
            return {}
        limits = {named[resource]: entries["max.message.bytes"].value for resource, entries in configs.items()}
        return {topic: min(int(limit), JOINED_BYTES) for topic, limit in limits.items() if limit is not None}

    def _keep(
        self, by_task: dict[int, list[TopicPartition]], topics: Collection[str]
    ) -> tuple[dict[TopicPartition, int], list[tuple[TopicPartition, Run]]]:
        """Begin tasks that keep offsets; return the positions, and what is known of the offsets."""
        self._stated = adopt(self._settings, self._target, topics)
        producer_id = NO_PRODUCER_ID
        if not all(self._stated.values()):
            with TransactionRequests(self._target.cluster, self._settings.keeping_id) as requests:
                producer_id = requests.init().producer_id
        mine = [tp for tps in by_task.values() for tp in tps]
        positions = kept_positions(self._settings, self._source, self._target, mine)
        naming = self._settings.naming
        for number, tps in by_task.items():
            places = {
                tp: Place(
                    TopicPartition(naming.remote(tp.topic), tp.partition), self._stated[tp.topic], positions.get(tp, 0)
                )
                for tp in tps
            }
            self._tasks[number] = KeptTask(self._settings, places, producer_id)
            self._tasks[number].start()
        return positions, [(tp, Run(0, 0, end)) for tp, end in positions.items()]

    def _returning(self) -> set[str]:
        """Return the topics of the source that a mirror from the target writes."""
        found = returning_topics(self._settings)
        if self._settings.naming.remote("t") == "t":
            wanted = self._settings.mirrored(found).select(self._source.cluster.metadata(refresh=True).topics)
            found |= mirrors_of(self._source, list(wanted), self._settings.target)
        return found

    def _seek(self, partitions: Collection[TopicPartition], positions: dict[TopicPartition, int]) -> None:
        known = {tp.topic for tp in positions}
        new = [tp for tp in partitions if tp not in positions]
        late = [tp for tp in new if tp.topic not in known] if self._starts_late else []
        self._has_begun = True
        for tp in partitions:
            if tp in positions:
                self._consumer.seek(tp, positions[tp])
        if early := [tp for tp in new if tp not in late]:
            self._consumer.seek_to_beginning(*early)
        if late:
            for tp, end in self._consumer.end_offsets(late).items():
                # The next process begins there, too, if this one dies before it has mirrored anything.
                self._tasks[task_of(tp, self._settings.tasks)].advance(tp, end)
                self._consumer.seek(tp, end)

    @property
    def _starts_late(self) -> bool:
        """Whether new topics begin at their ends; those that appear later begin at their beginnings."""
        return self._settings.start_at == "latest" and not self._has_begun

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit, and give the tasks up."""
        try:
            self._commit()
        finally:
            self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give the tasks up; others have them already."""
        self._drop_tasks()
        self._progress.assigned((), {})

    def _drop_tasks(self) -> None:
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()

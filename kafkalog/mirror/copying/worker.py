"""One process of a mirror: a member of the group in the source, and the tasks that the group gives it.

The worker keeps no state that the target does not have. When anything fails, `supervisor` throws it away and begins
another one, which goes on behind the last committed transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from uuid import UUID

from kafkalog.client.closing import Closing
from kafkalog.client.consumer import (
    LogTruncationError,
    OffsetAndMetadata,
    PositionOutOfRangeError,
    RebalanceListener,
    UnreadableBatchError,
)
from kafkalog.client.consumer.fetcher.fetch_collector import FetchedBatches
from kafkalog.client.errors import ClientError, KafkaError, is_retriable
from kafkalog.client.types import TopicPartition
from kafkalog.mirror import clients
from kafkalog.mirror.claims.returning import (
    check_clusters,
    raise_both,
    returning_of,
    say_left_out,
    settle_claims,
    unclear_topics,
    wanted_topics,
)
from kafkalog.mirror.copying.assignor import by_task, task_of
from kafkalog.mirror.copying.batching.batches import WholeBatches
from kafkalog.mirror.copying.batching.joining import JOINED_BYTES, joined
from kafkalog.mirror.copying.batching.limiter import Limiter
from kafkalog.mirror.copying.batching.size_limits import size_limits
from kafkalog.mirror.copying.left_out import LeftOut
from kafkalog.mirror.copying.pace import Pace
from kafkalog.mirror.copying.positions.beginnings import Beginnings
from kafkalog.mirror.copying.positions.created_again import CreatedAgainError, is_of_another, topic_ids
from kafkalog.mirror.copying.positions.known import KnownPositions
from kafkalog.mirror.copying.positions.lost_records import end_before, ends_before, say_lost
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.rechecker import Rechecker
from kafkalog.mirror.copying.sending import Until, send
from kafkalog.mirror.copying.source_consumer import source_consumer
from kafkalog.mirror.copying.task import MirrorTask
from kafkalog.mirror.internal_topics.runs import Run
from kafkalog.mirror.internal_topics.stored import read_stored
from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH, are_other_topics
from kafkalog.mirror.keeping.agreement import kept_positions
from kafkalog.mirror.keeping.kept_topics import remember
from kafkalog.mirror.keeping.places import places_of
from kafkalog.mirror.keeping.shared_id import SharedProducerId
from kafkalog.mirror.keeping.task import KeptTask
from kafkalog.mirror.keeping.topics import adopt, give_back
from kafkalog.mirror.keeping.unreadable import UnreadableTopics
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import TopicFollower
from kafkalog.mirror.topics.refused import RefusedTopics
from kafkalog.protocol.schema import ZERO_UUID
from kafkalog.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

_POLL_S = 0.25
_Offsets = tuple[dict[TopicPartition, int], list[tuple[TopicPartition, Run]]]


class Worker(Closing, RebalanceListener):
    """Mirror until `run` ends. `progress` tells other threads how far it is."""

    def __init__(self, settings: MirrorSettings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._source, self._target = clients.admin(settings.source_client), clients.admin(settings.target_client)
        self._follower = TopicFollower(settings, self._source, self._target)
        self._consumer = source_consumer(settings)
        self._reading = self._consumer.config.client
        self._tasks: dict[int, MirrorTask | KeptTask] = {}
        self._stated: dict[str, bool] = {}
        """For each topic that keeps its offsets: True if the target takes them as they are stated."""
        self._joined_bytes: dict[str, int] = {}
        """The most bytes of a batch of joined ones, by topic; only of topics that do not keep offsets."""
        self._found: list[FetchedBatches] = []
        """The batches that were fetched and are not sent yet."""
        self._behind: dict[int, set[TopicPartition]] = defaultdict(set)
        """The partitions of each task of which more was in the source than was fetched."""
        self._ids: dict[str, UUID] = {}
        """The ids of the source's topics when their partitions were assigned."""
        self._known = KnownPositions()
        self._rechecker = Rechecker(settings)
        self._left_out = LeftOut(self._consumer, progress, self._rechecker)
        self._shared_id = SharedProducerId(self._target, settings.keeping_id, self._rechecker)
        self._unshown: dict[TopicPartition, int] = {}
        """Positions that are committed in the target, and not shown in the source yet."""
        # With kept offsets nothing waits for a commit.
        eager = settings.commits_early and not settings.keeps_offsets
        self._pace = Pace(settings.commit_interval_ms / 1000, eager=eager, now=time.monotonic())
        self._limiter = Limiter(settings.max_bytes_per_second, time.monotonic())
        self._pool = ThreadPoolExecutor(settings.tasks, "mirror-commit")

    def run(self, stop: threading.Event) -> None:
        """Mirror until `stop` is set, then commit.

        Raises:
            Exception: Something has failed. What was not committed is mirrored again by the next worker.
        """
        into_itself = check_clusters(self._settings, self._source, self._target)
        self._follower.make_own()
        wanted = wanted_topics(self._settings, self._source, into_itself=into_itself)
        self._consumer.subscribe(pattern=wanted, listener=self)
        resume_at = 0.0
        while not stop.is_set():
            now = time.monotonic()
            self._left_out.check(now)
            self._shared_id.check(now)
            self._undo_refused()
            patience = min(_POLL_S, max(self._commit_due(now) - now, 0.0))
            if now < resume_at:
                self._wait(min(resume_at - now, patience))
            elif size := self._mirror(self._fetched(patience)):
                resume_at = time.monotonic() + self._limiter.take(size, time.monotonic())
        self._commit()

    def close(self) -> None:
        """Leave the group, and close all connections; open transactions are left to their next owners."""
        self._drop_tasks()
        self._pool.shutdown()
        self._consumer.close(5.0)
        for each in (self._source, self._target, self._rechecker):
            each.close()

    # Records

    def _fetched(self, patience: float) -> list[FetchedBatches]:
        """Wait for something fetched, and for more as long as no commit is due, unless it is much."""
        until, size = time.monotonic() + patience, 0
        while size < JOINED_BYTES:
            if self._found:
                until = min(until, self._pace.gather_until)
            found = self._poll(max(until - time.monotonic(), 0.0))
            if found is None:
                break
            self._found.append(found)
            size += len(found.fetched.records)
        # A rebalance during a poll has emptied the list: then others mirror this, or it is fetched again.
        found_now, self._found = self._found, []
        return found_now

    def _poll(self, seconds: float) -> FetchedBatches | None:
        """Poll; where the log has no such position, or no batch there, see to the partition and return None."""
        try:
            return self._consumer.poll_fetched(seconds)
        except LogTruncationError as error:
            again = self._commit_found()
            for tp, position in error.positions.items():
                if tp not in again:
                    # Without an end, the leader knows no epochs.
                    self._go_back(tp, position, error.divergent.get(tp, OffsetAndMetadata(position)))
        except PositionOutOfRangeError as error:
            if error.tp not in self._commit_found():
                self._come_back(error.tp, error.offset)
        except UnreadableBatchError as error:
            self._left_out.hold(error.tp, error.offset, error, time.monotonic())
        return None

    def _come_back(self, tp: TopicPartition, position: int) -> None:
        """Seek in a log that does not have the position: to its beginning, or to its end if it has lost records.

        Raises:
            CreatedAgainError: The log is that of another topic.
            KafkaError: Its leader refuses to tell where it begins and ends.
        """
        if are_other_topics(self._ids.get(tp.topic), topic_ids(self._source, [tp.topic]).get(tp.topic)):
            raise CreatedAgainError(f"deleted and created again in the source: {tp.topic}")
        try:
            end = end_before(self._source, tp, position) if tp in self._known.same else None
        except (KafkaError, ClientError) as error:
            if not is_retriable(error):
                raise
            self._left_out.wait(tp, position, error, time.monotonic())
            return
        self._left_out.release(tp, position + 1)
        if end is not None:
            self._go_back(tp, position, end)
        else:
            logger.warning("%s has no offset %d in the source: going on at its beginning", tp, position)
            self._left_out.taken(tp, position + 1)
            self._consumer.seek_to_beginning(tp)

    def _go_back(self, tp: TopicPartition, position: int, end: OffsetAndMetadata) -> None:
        """Go on at the end of what is left of a log that has lost records, also after a restart."""
        if end.offset < position:
            say_lost(tp, position, end.offset)
            task = self._tasks[task_of(tp, self._settings.tasks)]
            task.advance(tp, end.offset, end.leader_epoch)
            self._commit_tasks([task])
        self._consumer.seek(tp, end)

    def _commit_found(self) -> set[TopicPartition]:
        """Mirror what was fetched, and commit all tasks; return the partitions that are to be read again."""
        found, self._found = self._found, []
        self._mirror(found)
        self._commit()
        return self._undo_refused()

    def _undo_refused(self) -> set[TopicPartition]:
        """Hold what the target has refused; return the partitions that are to be read again, of the same tasks."""
        again: set[TopicPartition] = set()
        for task in self._tasks.values():
            if (undone := task.take_undone()) is not None:
                self._left_out.undo(undone, self._settings, time.monotonic())
                again |= undone.positions.keys()
        self._found = [each for each in self._found if each.partition not in again]
        return again

    def _mirror(self, found: Iterable[FetchedBatches]) -> int:
        """Send what was fetched; return its size in bytes.

        Raises:
            CreatedAgainError: Some of it is of a topic that was created in the place of one that is mirrored.
        """
        by_partition: dict[TopicPartition, list[FetchedBatches]] = defaultdict(list)
        others = set()
        for each in found:
            if is_of_another(each, self._ids):
                others.add(each.partition.topic)
            else:
                by_partition[each.partition].append(each)
        # A batch that is tried again comes last, in a transaction of its own: so it undoes nothing of others.
        in_order = sorted(by_partition, key=self._left_out.batches.is_held)
        size = sum(self._mirror_partition(tp, by_partition[tp]) for tp in in_order)
        if others:
            self._commit()
            raise CreatedAgainError(f"deleted and created again in the source: {', '.join(sorted(others))}")
        return size

    def _mirror_partition(self, tp: TopicPartition, fetches: Sequence[FetchedBatches]) -> int:
        """Send what was fetched of a partition; return its size in bytes."""
        number = task_of(tp, self._settings.tasks)
        task, first, last = self._tasks[number], fetches[0], fetches[-1]
        if isinstance(task, MirrorTask):
            task.begin(tp, first.offset)
        end = self._progress.fetched(tp, last.fetched)
        found = [(each.fetched, each.offset) for each in fetches]
        made = WholeBatches(
            found,
            check_crcs=self._reading.check_crcs,
            keep=self._stated.get(tp.topic, False),
            max_size=self._reading.max_batch_bytes,
        )
        most = 0 if self._left_out.batches.goes_singly(tp) else self._joined_bytes.get(tp.topic)
        batches = joined(made, most) if most else made
        sent = send(tp, task, batches, first.offset, self._progress, lambda: self._commit_tasks([task]))
        is_behind = False
        if sent.until is Until.WAITING:
            self._left_out.stop(tp, sent.position)
        elif sent.until is Until.END and made.damage is not None:
            self._consumer.seek(tp, sent.position)
            self._left_out.hold(tp, sent.position, made.damage, time.monotonic())
        elif sent.until is Until.END:
            self._left_out.release(tp, last.next_offset)
            if last.next_offset > first.offset:
                task.advance(tp, last.next_offset, last.leader_epoch)
            is_behind = last.next_offset < end
        (self._behind[number].add if is_behind else self._behind[number].discard)(tp)
        return sent.size

    def _wait(self, seconds: float) -> None:
        """Wait for the limit of bytes, and take part in the group meanwhile."""
        reading = self._left_out.read
        self._consumer.pause(*reading)
        if (found := self._poll(seconds)) is not None:
            # A rebalance has brought partitions that are not paused.
            self._found.append(found)
        self._consumer.resume(*(reading & self._left_out.read))

    def _commit_due(self, now: float) -> float:
        """Commit what is due; return when there is something to commit next."""
        ready = [task for number, task in self._tasks.items() if task.dirty and not self._behind[number]]
        if now >= self._pace.all_at:
            self._commit()
        elif ready and now >= self._pace.soonest_at:
            self._commit_tasks(ready)
        else:
            return self._pace.next_at(ready=bool(ready))
        return self._pace.all_at

    def _commit(self) -> None:
        """Commit all tasks, and show in the source how far they are."""
        for task in self._tasks.values():
            task.begin_turn()
        self._commit_tasks([task for task in self._tasks.values() if task.dirty])
        self._pace.committed_all(time.monotonic())
        if self._unshown:
            # These only show how far the mirror is. A worker begins at the position that the target has.
            self._consumer.commit_async(self._unshown)
            self._unshown = {}

    def _commit_tasks(self, tasks: Collection[MirrorTask | KeptTask]) -> None:
        """Commit these tasks, at the same time."""
        if not tasks:
            return
        began = time.monotonic()
        for committed in self._pool.map(lambda task: task.commit(), tasks):
            for tp, done in committed.items():
                self._progress.committed(tp, done)
                self._left_out.taken(tp, done.next_offset)
                self._unshown[tp] = done.next_offset
                if not self._settings.keeps_offsets and self._ids.get(tp.topic, ZERO_UUID) != ZERO_UUID:
                    self._known.same.add(tp)
        self._pace.committed(began, time.monotonic(), behind=any(self._behind.values()))

    # The group

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Take the tasks of these partitions over, and go on at the positions that the target has."""
        # Before anything else: what is fetched or found out later of another topic does not pass for one of these.
        self._ids = topic_ids(self._source, {tp.topic for tp in partitions})
        self._progress.topics_are(self._ids)
        self._left_out = out = LeftOut(self._consumer, self._progress, self._rechecker)
        late: dict[TopicPartition, int] = {}
        unclear = unclear_topics(self._settings, self._source, {tp.topic for tp in partitions})
        out.unreadable.append(UnreadableTopics(self._rechecker.source, "source", unclear))
        partitions = out.leave_out_topics(partitions, unclear)
        if self._settings.keeps_offsets:
            mine = out.leave_out_topics(partitions, returning := self._returning(partitions))
            positions, runs = self._keep(mine := self._adopt(self._make(mine)))
            mine = out.leave_out(mine, out.leaderless.partitions)
        else:
            beginnings = Beginnings(self._settings, self._progress, self._source.cluster, out.leaderless)
            positions, runs = self._translate(by_task(partitions, self._settings.tasks))
            mine = out.leave_out_topics(partitions, returning := self._begin_new(partitions, positions, beginnings))
            mine = out.leave_out(mine, out.leaderless.partitions)
            positions = {tp: at for tp, at in positions.items() if tp not in self._known.anew}
            late = beginnings.late([tp for tp in mine if tp not in positions.keys() | self._known.anew], positions)
            mine = out.leave_out(mine, out.leaderless.partitions)
            # A position with an epoch is compared with the log before it is read there (KIP-320).
            doubtful = self._known.same - self._known.epochs.keys()
            positions |= self._set_back({tp: positions[tp] for tp in mine if tp in positions and tp in doubtful})
            mine = self._make(mine)
            self._joined_bytes = size_limits(self._settings, self._target, {tp.topic for tp in mine})
        say_left_out(self._settings, returning)
        self._progress.has_begun = True
        self._progress.assigned(mine, positions, runs)
        self._seek(mine, positions, late)
        logger.info("mirroring %d partitions in %d tasks", len(mine), len(self._tasks))

    def _returning(self, partitions: Collection[TopicPartition]) -> set[str]:
        return returning_of(self._settings, self._source, {tp.topic for tp in partitions})

    def _make(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Make partitions in the target; return those that it has."""
        refusals = self._follower.make({tp.topic for tp in partitions})
        self._left_out.refused = refused = RefusedTopics(self._rechecker.follower, refusals)
        return self._left_out.leave_out(partitions, [tp for tp in partitions if refused.lacks(tp)])

    def _begin_new(
        self, partitions: Collection[TopicPartition], positions: dict[TopicPartition, int], beginnings: Beginnings
    ) -> set[str]:
        """Store where topics begin that keep their names; return those that the reverse mirror writes.

        The topics are created in the target after that. So of two mirrors that find a topic at the same time, at least
        one sees the other's position here.

        Raises:
            BothWaysError: The mirror of the other direction has begun with one meanwhile.
        """
        naming = self._settings.naming
        # Each process claims the partitions that it mirrors, also where another one has begun with the topic.
        new = [tp for tp in partitions if tp not in positions and naming.remote(tp.topic) == tp.topic]
        returning = settle_claims(self._settings, self._source, partitions, positions, self._store)
        new = [tp for tp in new if tp.topic not in returning]
        if not new:
            return returning
        starts = beginnings.all(new, positions)
        self._store(starts)
        if both := self._returning(starts):
            self._store(dict.fromkeys(starts))
            self._progress.has_begun = True
            raise_both(self._settings, both)
        positions |= starts
        return returning

    def _set_back(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the ends of partitions that have lost records, and store them as the positions.

        Later the log may be longer than the old position was, which would pass over records then.
        """
        ends = ends_before(self._source, positions)
        self._store(ends)
        return ends

    def _store(self, positions: Mapping[TopicPartition, int | None]) -> None:
        for mine in by_task(positions, self._settings.tasks).values():
            self._mirror_task(mine[0]).store({tp: positions[tp] for tp in mine})

    def _mirror_task(self, tp: TopicPartition) -> MirrorTask:
        task = self._tasks[task_of(tp, self._settings.tasks)]
        assert isinstance(task, MirrorTask)
        return task

    def _translate(self, tasks: Mapping[int, list[TopicPartition]]) -> _Offsets:
        """Begin tasks that write transactions; return the positions, and what is known of the offsets."""
        for number in tasks:
            self._tasks[number] = MirrorTask(self._settings, number, self._ids, self._left_out.batches.is_held)
        for _ in self._pool.map(lambda task: task.start(), self._tasks.values()):
            pass
        stored = read_stored(self._settings) if tasks else {}
        self._known = KnownPositions(list(chain.from_iterable(tasks.values())), stored, self._ids)
        positions = self._known.positions()
        if not (tasks and self._settings.emit_checkpoints):
            return positions, []
        maps = self._known.maps(self._settings)
        mine = [(tp, maps[tp].runs) for tps in tasks.values() for tp in tps if tp in maps]
        for tp, runs in mine:
            self._mirror_task(tp).recall(tp, runs, unnamed=self._known.is_unnamed(tp))
        return positions, [(tp, run) for tp, runs in mine for run in runs]

    def _adopt(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Let the target's topics take offsets; return the partitions of those whose configuration can be read."""
        topics = {tp.topic for tp in partitions}
        leaderless = self._left_out.leaderless
        self._stated, taken = adopt(self._settings, self._target, topics, leaderless)
        if both := returning_of(self._settings, self._source, taken):
            give_back(self._target, [self._settings.naming.remote(topic) for topic in taken])
            raise_both(self._settings, both)
        out = topics - self._stated.keys()
        unreadable = {self._settings.naming.remote(topic) for topic in out - {tp.topic for tp in leaderless.partitions}}
        self._left_out.unreadable.append(UnreadableTopics(self._rechecker.target, "target", unreadable))
        return self._left_out.leave_out_topics(partitions, out)

    def _keep(self, mine: Collection[TopicPartition]) -> _Offsets:
        """Begin tasks that keep offsets; return the positions, and what is known of the offsets."""
        producer_id = NO_PRODUCER_ID
        if not all(self._stated.values()):
            producer_id = self._shared_id.ask(time.monotonic())
        leaderless = self._left_out.leaderless
        kept = kept_positions(self._settings, self._source, self._target, mine, self._ids, leaderless)
        positions = {tp: at.offset for tp, at in kept.items()}
        self._known.epochs = {tp: at.leader_epoch for tp, at in kept.items()}
        mine = [tp for tp in mine if tp not in leaderless.partitions]
        remember(self._settings, mine, self._ids)
        places = places_of(self._settings, self._target, mine, self._stated, positions)
        for number, tps in by_task(mine, self._settings.tasks).items():
            self._tasks[number] = KeptTask(self._settings, {tp: places[tp] for tp in tps}, producer_id)
            self._tasks[number].start()
        return positions, [(tp, Run(0, 0, end)) for tp, end in positions.items()]

    def _seek(
        self,
        partitions: Collection[TopicPartition],
        positions: Mapping[TopicPartition, int],
        late: Mapping[TopicPartition, int],
    ) -> None:
        for tp in partitions:
            if tp in positions:
                self._consumer.seek(tp, OffsetAndMetadata(positions[tp], self._known.epochs.get(tp, NO_EPOCH)))
        if early := [tp for tp in partitions if tp not in positions and tp not in late]:
            self._consumer.seek_to_beginning(*early)
        for tp, end in ((tp, late[tp]) for tp in partitions if tp in late):
            # The next process begins there, too, if this one dies before it has mirrored anything.
            self._tasks[task_of(tp, self._settings.tasks)].advance(tp, end)
            self._consumer.seek(tp, end)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Commit, and give the tasks up."""
        try:
            self._commit()
        finally:
            self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Give the tasks up; others have them already."""
        self._drop_tasks()
        self._left_out = LeftOut(self._consumer, self._progress, self._rechecker)
        self._progress.assigned((), {})

    def _drop_tasks(self) -> None:
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()
        for noted in (self._found, self._behind, self._unshown):
            noted.clear()

"""One task: it takes batches of some partitions, and sends them in a thread so that they keep their offsets.

It has the calls of `copying.task.MirrorTask`. There is no transaction to commit: `commit` waits until the target has
what was sent, and tells how far that is. Of a partition where the target refuses a batch, nothing more is taken until
the owner has asked by `take_undone` where to read it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping

from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.mirror import clients
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.refused_batches import RefusedBatch, Undone
from kafkalog.mirror.copying.task import Committed
from kafkalog.mirror.internal_topics.runs import Run
from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.keeping.sender import KeptBatch, KeptSender, Place
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.records.batch import read_header

logger = logging.getLogger(__name__)

MAX_QUEUED_BYTES = 8 << 20
"""The number of bytes that may wait. A sender of more is blocked until there is room."""


class KeptTask:
    """A task, from `start` to `close`.

    Args:
        settings: The mirror's.
        places: The partitions of the target, by those of the source.
        producer_id: See `KeptSender`.
    """

    def __init__(self, settings: MirrorSettings, places: Mapping[TopicPartition, Place], producer_id: int) -> None:
        self._places = dict(places)
        self._admin = clients.admin(settings.target_client)
        self._sender = KeptSender(self._admin.cluster, producer_id)
        self._next: dict[TopicPartition, int] = {}
        self._ends = {tp: place.end for tp, place in self._places.items()}
        self._told = dict(self._ends)
        self._queued: dict[TopicPartition, list[KeptBatch]] = {}
        self._size = 0
        self._refused: dict[TopicPartition, RefusedBatch] = {}
        self._sending = False
        self._failure: Exception | None = None
        self._closed = False
        self._changed = threading.Condition()
        """Guards all of the above but `_places`, which belong to the thread."""
        self._thread = threading.Thread(target=self._run, name="mirror-keep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def dirty(self) -> bool:
        """Return whether there is something to tell."""
        return bool(self._next)

    def send(self, partition: TopicPartition, batch: MirroredBatch) -> None:
        """Send a batch of a partition of the source; wait while too much is waiting.

        Raises:
            KeepingError: Its offsets cannot be kept.
            Exception: What was sent before has failed.
        """
        place = self._places[partition]
        kept = _kept(place, batch)
        with self._changed:
            if partition in self._refused:
                return
            end = self._ends[partition]
            if kept.base_offset < end:
                raise KeepingError(
                    f"{partition} of the source has gone back from offset {end} to {kept.base_offset}: it was deleted "
                    "and created again, or has lost records. Delete the topic in the target to mirror it anew"
                )
            if not place.stated and (kept.base_offset > end or len(batch.offsets) > 1):
                raise KeepingError(_gap(partition, end, batch))
            self._ends[partition] = kept.next_offset
            self._queued.setdefault(partition, []).append(kept)
            self._size += len(kept.data)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._size < MAX_QUEUED_BYTES or self._over)
            self._check()

    def advance(self, partition: TopicPartition, next_offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Note the next offset to read in the source; the leader epoch is not stored."""
        self._next[partition] = next_offset

    def begin_turn(self) -> None:
        """Do nothing: nothing is stored but the records."""

    def commit(self) -> dict[TopicPartition, Committed]:
        """Wait until the target has what was sent; return how far that is, by partition of the source."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._queued or self._sending) or self._over)
            self._check()
            self._set_back_refused()
            done: dict[TopicPartition, Committed] = {}
            for tp, next_offset in self._next.items():
                before, end = self._told[tp], self._ends[tp]
                # Offsets are the same on both sides, also those that both lack.
                runs = (Run(before, before, end - before),) if end > before else ()
                done[tp] = Committed(next_offset, runs)
                self._told[tp] = end
            self._next.clear()
        return done

    def take_undone(self) -> Undone | None:
        """Return what the target refuses, and take these partitions' batches again; None if it refuses nothing."""
        with self._changed:
            if not self._refused:
                return None
            self._set_back_refused()
            refused, self._refused = self._refused, {}
            return Undone(refused, {tp: OffsetAndMetadata(self._ends[tp]) for tp in refused})

    def _set_back_refused(self) -> None:
        """Let partitions with a refused batch go on where the target ends; tell nothing of those with nothing new."""
        for tp in self._refused:
            if self._next.pop(tp, None) is not None and self._ends[tp] > self._told[tp]:
                self._next[tp] = self._ends[tp]

    def close(self) -> None:
        """End the thread. What was not sent is for the next owner of the partitions."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._admin.cluster.end_retries()
        self._admin.close()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def _over(self) -> bool:
        return self._closed or self._failure is not None

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while self._take():
                fresh = [
                    (place, place.pending[0].base_offset)
                    for place in self._places.values()
                    if place.pending and not place.end and place.stated
                ]
                self._sender.deliver(self._places.values())
                self._begin_late((place, first) for place, first in fresh if place.end)
                with self._changed:
                    self._give_up_refused()
                    self._sending = False
                    self._changed.notify_all()
        except Exception as error:
            # Whatever it is, the worker must learn of it: it raises it, and is replaced.
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take(self) -> bool:
        """Wait for batches, and give them to their places; return False once the task is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued or self._closed)
            if self._closed:
                return False
            for tp, batches in self._queued.items():
                self._places[tp].pending += batches
            self._queued.clear()
            self._size = 0
            self._sending = True
            self._changed.notify_all()
            return True

    def _give_up_refused(self) -> None:
        """Forget what waits behind refused batches."""
        for tp, place in self._places.items():
            if (refused := place.take_refused()) is not None:
                self._refused[tp] = refused
                self._size -= sum(len(each.data) for each in self._queued.pop(tp, ()))
                self._ends[tp] = place.end

    def _begin_late(self, fresh: Iterable[tuple[Place, int]]) -> None:
        """Let logs that were empty begin where their first records are, if that is not at offset 0."""
        for place, first in fresh:
            if first <= 0:
                continue
            try:
                self._admin.delete_records({place.target: first})
            except (KafkaError, ClientError) as error:
                logger.info("%s begins at offset 0, without records before %d: %s", place.target, first, error)


def _kept(place: Place, batch: MirroredBatch) -> KeptBatch:
    if place.stated:
        header = read_header(batch.data)
        return KeptBatch(batch.data, header.base_offset, header.next_offset)
    first, last = batch.offsets[0], batch.offsets[-1]
    return KeptBatch(batch.data, first[0], sum(last))


def _gap(partition: TopicPartition, end: int, batch: MirroredBatch) -> str:
    lacking = end if batch.offsets[0][0] > end else sum(batch.offsets[0])
    return (
        f"{partition} of the source has no record to mirror at offset {lacking}: it was compacted or deleted, belongs "
        "to an aborted transaction, or is a transaction's marker. Only a target of kafkalog keeps offsets beside such "
        "gaps. Use --offsets translate, or leave the topic out by --exclude"
    )

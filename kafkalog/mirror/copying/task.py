"""One task: a transactional producer that writes the records of some partitions, and with them how far it is.

A transaction holds, together: the mirrored batches, an offset sync and the source position of each of their partitions.
So the target has each record once, whatever happens to the process: either the transaction is committed and the next
process goes on behind it, or it is aborted and the next process mirrors its records again.

An offset sync also has the runs of the transaction (`internal_topics.runs`), a few bytes. A transaction with more runs
than fit writes several syncs of the partition, each with the next ones. The runs before the transaction are in its last
sync once in a *turn*, which is `offset.flush.interval.ms`: a hundred transactions a second would otherwise write some
100 KB each second, for each partition. If the last sync of a turn lacks these runs, the next turn writes another sync,
even if no record has come. So when compaction has left only the newest sync of a partition, that sync has the runs,
unless the process was killed within the turn and the log was compacted in the same time.

If the target refuses a batch, the transaction is aborted. From then on the task takes nothing, until its owner has
asked by `take_undone` which batch that is, and where all partitions of the transaction are to be read again. So it is
if a leader does not take a batch for `delivery.timeout.ms`, while others take theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafkalog.client.errors import ClientTimeoutError, KafkaError
from kafkalog.client.producer.batches.encoded_batch import EncodedFuture
from kafkalog.client.producer.transactions.transaction_manager import TransactionAbortedError
from kafkalog.client.transactions.errors import AbortableTransactionError, FatalTransactionError
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.mirror import clients
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.positions.translation import OffsetMap
from kafkalog.mirror.copying.refused_batches import RefusedBatch, Undone, is_refusal
from kafkalog.mirror.internal_topics.formats import OffsetSync, SourcePosition
from kafkalog.mirror.internal_topics.runs import MOST_RUNS_STORED, Run, run_headers
from kafkalog.mirror.internal_topics.topic_ids import NO_EPOCH, epoch_headers, id_headers
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.errors import MessageTooLargeError
from kafkalog.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

_DEFAULTS = {
    # Batches of the source are not split, however large a topic allows them.
    "max.request.size": str(32 << 20),
    "buffer.memory": str(64 << 20),
}
_FIXED = {"acks": "all", "enable.idempotence": "true", "retries": str(0x7FFFFFFF)}
"""The properties that exactly-once needs, whatever the file says."""


class Committed(NamedTuple):
    """The progress in one partition of the source that one transaction, or one write with kept offsets, has made."""

    next_offset: int
    runs: tuple[Run, ...]


class _Before(NamedTuple):
    """A partition before its first batch in the present transaction."""

    position: OffsetAndMetadata
    """The position at which it is read again, if the transaction is aborted."""
    advanced: bool
    """True if it had to be committed that this is the position."""


class MirrorTask:
    """A task, from its first transaction on. `start` fences other processes that have the same task.

    Every call raises the errors of the producer's transactions; then the task can only be closed. `topic_ids` are those
    of the source's topics that have one; they are stored with positions and syncs. `is_held` tells whether a partition
    is held at a batch that the target has not taken before.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        number: int,
        topic_ids: Mapping[str, UUID] | None = None,
        is_held: Callable[[TopicPartition], bool] = lambda tp: False,
    ) -> None:
        self.number = number
        self._settings = settings
        self._naming = settings.naming
        self._topic_ids = topic_ids or {}
        self._is_held = is_held
        properties = {**_DEFAULTS, **settings.target_client, **_FIXED}
        properties["transactional.id"] = settings.transactional_id(number)
        properties["transaction.timeout.ms"] = str(settings.transaction_timeout_ms)
        self._producer = clients.producer(properties)
        self._sent: dict[TopicPartition, list[tuple[MirroredBatch, EncodedFuture]]] = {}
        self._starts: dict[TopicPartition, int | None] = {}
        """The offset at which a partition begins in the source; None once that is committed."""
        self._next: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        """The leader epochs of the records before `_next`."""
        self._at: dict[TopicPartition, OffsetAndMetadata] = {}
        """The positions in the source up to which partitions were given to the task."""
        self._before: dict[TopicPartition, _Before] = {}
        """The partitions of the present transaction."""
        self._undone: Undone | None = None
        self._open = False
        self._maps: dict[TopicPartition, OffsetMap] = {}
        """The runs to store, of the partitions that have some."""
        self._stored: set[TopicPartition] = set()
        """Partitions of which all runs were stored in this turn."""
        self._owed: set[TopicPartition] = set()
        """Partitions of `_stored` whose newest sync lacks the runs before its transaction."""
        self._due: set[TopicPartition] = set()
        """Partitions that were in `_owed` when a turn ended; they stay here until a sync has the runs."""

    def start(self) -> None:
        """Take the task over: an open transaction of whoever had it before is aborted."""
        self._producer.init_transactions()

    @property
    def dirty(self) -> bool:
        """Return whether there is something to commit."""
        return self._undone is None and bool(self._next or self._due)

    def begin_turn(self) -> None:
        """Begin the next turn, in which all runs of each partition may be stored once."""
        self._due |= self._owed
        self._owed.clear()
        self._stored.clear()

    def recall(self, partition: TopicPartition, runs: Sequence[Run], *, unnamed: bool = False) -> None:
        """Know from now on what earlier processes have stored of a partition's offsets.

        What is `unnamed` was stored without the topic's id; the next commit stores it with the id.
        """
        self._maps[partition] = _map_of(runs)
        if unnamed and runs:
            self._due.add(partition)

    def begin(self, partition: TopicPartition, offset: int) -> None:
        """Note that a partition is read from an offset on."""
        if self._undone is not None:
            self._undone.positions.setdefault(partition, self._position(partition, offset))
            return
        self._starts.setdefault(partition, offset)
        self._at[partition] = self._position(partition, offset)

    def send(self, partition: TopicPartition, batch: MirroredBatch) -> None:
        """Send a batch of a partition of the source in the present transaction."""
        if self._is_missed(partition):
            return
        self._begin()
        if partition not in self._before:
            at = self._at.get(partition, OffsetAndMetadata(batch.offsets[0][0]))
            self._before[partition] = _Before(at, partition in self._next)
        target = self._naming.remote(partition.topic)
        # What is left of the batch is only where its records come from.
        left = batch._replace(data=bytearray())
        try:
            future = self._producer.send_batch(target, partition.partition, batch.data)
        except MessageTooLargeError as error:
            self._undo(error, {partition: _refused(left, error)})
        except AbortableTransactionError as error:
            self._undo(error)
        else:
            self._sent.setdefault(partition, []).append((left, future))

    def advance(self, partition: TopicPartition, next_offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Note the next offset to read in the source, and the leader epoch of the record before it."""
        if self._is_missed(partition):
            return
        self._next[partition] = next_offset
        self._epochs[partition] = leader_epoch
        self._at[partition] = OffsetAndMetadata(next_offset, leader_epoch)

    def store(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Store positions of partitions of which nothing was sent yet, in a transaction of their own; None forgets."""
        self._begin()
        for tp, next_offset in positions.items():
            self._send_position(tp, next_offset)
        self._producer.commit_transaction()
        self._open = False

    def commit(self) -> dict[TopicPartition, Committed]:
        """Commit what was sent, and where the source goes on; return it by partition of the source.

        It is nothing where the target has refused a batch.
        """
        if not self.dirty:
            return {}
        self._begin()
        try:
            done = {tp: Committed(next_offset, self._runs(tp)) for tp, next_offset in self._next.items()}
        except (KafkaError, AbortableTransactionError, TransactionAbortedError, ClientTimeoutError) as error:
            self._undo(error)
            return {}
        for tp, committed in done.items():
            if committed.runs:
                self._send_sync(tp, committed.runs)
            self._send_position(tp, committed.next_offset, self._epochs[tp])
        for tp in list(self._due):
            self._send_sync(tp, ())
        self._producer.commit_transaction()
        self._open = False
        self._starts |= dict.fromkeys(self._sent)
        for noted in (self._sent, self._next, self._epochs, self._before):
            noted.clear()
        return done

    def take_undone(self) -> Undone | None:
        """Return what was given up because the target has refused a batch, and go on; None if it has refused none."""
        undone, self._undone = self._undone, None
        return undone

    def close(self) -> None:
        """Close the producer. An open transaction is left to the next owner of the task, who aborts it."""
        self._producer.close(0.0)

    def metrics(self) -> Mapping[str, float]:
        """Return the producer's metrics."""
        return self._producer.metrics()

    def _begin(self) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open = True

    def _is_missed(self, partition: TopicPartition) -> bool:
        """Tell whether nothing is taken at present; if so, the partition is to be read again."""
        if self._undone is None:
            return False
        if partition not in self._undone.positions:
            self._undone.positions[partition] = self._at[partition]
        return True

    def _position(self, partition: TopicPartition, offset: int) -> OffsetAndMetadata:
        """Return a position, with the leader epoch of the record before it where that is known."""
        at = self._at.get(partition)
        return at if at is not None and at.offset == offset else OffsetAndMetadata(offset)

    def _undo(self, error: Exception, refused: dict[TopicPartition, RefusedBatch] | None = None) -> None:
        """Abort the transaction, because the target has refused batches, or has not taken some in time.

        Raises:
            Exception: It has refused none, and the error is another one; or it has not taken any in time.
        """
        if isinstance(error, FatalTransactionError):
            raise error
        # Then it is known of each batch what has become of it.
        self._producer.abort_transaction()
        self._open = False
        found = {tp: first for tp, sent in self._sent.items() if (first := _first_refused(sent)) is not None}
        found |= refused or {}
        found = found or self._late()
        if not found:
            raise error
        self._undone = Undone(found, {tp: before.position for tp, before in self._before.items()})
        for tp, before in self._before.items():
            self._at[tp] = before.position
            if before.advanced:
                self._next[tp], self._epochs[tp] = before.position.offset, before.position.leader_epoch
            else:
                self._next.pop(tp, None)
                self._epochs.pop(tp, None)
        self._sent.clear()
        self._before.clear()

    def _late(self) -> dict[TopicPartition, RefusedBatch]:
        """Return the first batch of each partition that a leader has not taken in time.

        There are none where this is so of all partitions, unless a held one is tried alone: the target may be the
        reason, and another worker tries all of them again soon.
        """
        found = {tp: first for tp, sent in self._sent.items() if (first := _first_late(sent)) is not None}
        return found if len(found) < len(self._sent) or any(map(self._is_held, found)) else {}

    def _send_position(self, partition: TopicPartition, next_offset: int | None, leader_epoch: int = NO_EPOCH) -> None:
        position = SourcePosition(self._settings.source, partition, next_offset)
        headers = [*self._id_headers(partition), *epoch_headers(leader_epoch)]
        self._producer.send(self._naming.offsets, position.value(), position.key(), headers)

    def _id_headers(self, partition: TopicPartition) -> list[tuple[str, bytes]]:
        return id_headers(self._topic_ids.get(partition.topic, ZERO_UUID))

    def _send_sync(self, partition: TopicPartition, runs: Sequence[Run]) -> None:
        known = self._maps.setdefault(partition, OffsetMap(MOST_RUNS_STORED))
        whole = self._settings.emit_checkpoints and partition not in self._stored
        *first, last = _parts(runs)
        for part in first:
            for run in part:
                known.add(run)
            self._send_pair(partition, known, part)
        before = tuple(known.runs) if whole and (not last or known.precedes(last[0])) else ()
        for run in last:
            known.add(run)
        self._send_pair(partition, known, last, before)
        if whole:
            self._stored.add(partition)
            self._due.discard(partition)
        elif self._settings.emit_checkpoints:
            self._owed.add(partition)

    def _send_pair(
        self, partition: TopicPartition, known: OffsetMap, own: Sequence[Run], before: Sequence[Run] = ()
    ) -> None:
        assert known.last is not None
        sync = OffsetSync(partition, *known.last)
        headers = [*run_headers(sync, own, before), *self._id_headers(partition)]
        self._producer.send(self._naming.offset_syncs, sync.value(), sync.key(), headers, partition=0)

    def _runs(self, partition: TopicPartition) -> tuple[Run, ...]:
        """Wait for the batches of a partition; return where their records are on both sides."""
        runs: list[Run] = []
        for batch, future in self._sent.get(partition, ()):
            downstream, _ = future.result()
            for upstream, count in batch.offsets:
                runs.append(Run(upstream, downstream, count))
                downstream += count
        start = self._starts.get(partition)
        if runs and start is not None:
            # There are no records before the first one: a position there is that of the first one.
            runs.insert(0, Run(start, runs[0].downstream, 0))
        return tuple(runs)


def _refused(batch: MirroredBatch, error: KafkaError) -> RefusedBatch:
    return RefusedBatch(batch.offsets[0][0], batch.next_offset, batch.joined, error)


def _first_refused(sent: Iterable[tuple[MirroredBatch, EncodedFuture]]) -> RefusedBatch | None:
    """Return the first one of batches, all of which are done, that was refused itself."""
    for batch, future in sent:
        error = future.exception()
        if error is not None and is_refusal(error):
            return _refused(batch, error)
    return None


def _first_late(sent: Iterable[tuple[MirroredBatch, EncodedFuture]]) -> RefusedBatch | None:
    """Return the first one of batches, all of which are done, that was not taken in time."""
    for batch, future in sent:
        error = future.exception()
        if isinstance(error, ClientTimeoutError):
            return RefusedBatch(batch.offsets[0][0], batch.next_offset, False, error)
    return None


def _parts(runs: Sequence[Run]) -> list[Sequence[Run]]:
    """Return the runs of a transaction, joined where they touch, in parts that an offset sync can have each."""
    made = OffsetMap(max(len(runs), 1))
    for run in runs:
        made.add(run)
    return [made.runs[at : at + MOST_RUNS_STORED] for at in range(0, len(made), MOST_RUNS_STORED)] or [()]


def _map_of(runs: Iterable[Run]) -> OffsetMap:
    made = OffsetMap(MOST_RUNS_STORED)
    for run in runs:
        made.add(run)
    return made

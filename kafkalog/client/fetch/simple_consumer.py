"""A consumer of assigned partitions: without a group, without committed offsets, without threads.

Use it for tools that read a few partitions once, such as `kafkalog consume` without a group. To share topics among
members of a group, to commit offsets, or to read Arrow batches, use `kafkalog.client.consumer.Consumer`; it also
reads assigned partitions, and fetches ahead in a thread of its own. To decide each fetch by offset and size, use
`LowLevelConsumer` (`low_level_consumer`).

One fetch is in flight to each leader while earlier records are being handed out. Positions move with the records that
`poll` returns, not with what has been fetched.
"""

from __future__ import annotations

import logging
import select
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError, ClientTimeoutError, ConfigError, ConnectionFailedError, is_retriable
from kafkalog.client.fetch.decode import decode_records
from kafkalog.client.fetch.fetch_request import MAX_VERSION, MIN_VERSION, fetch_request, read_partition
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.offsets import Answers, ask_leaders, list_offsets, list_offsets_each
from kafkalog.client.retry import Retry
from kafkalog.client.types import EARLIEST, LATEST, ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import CorruptMessageError, KafkaError, OffsetOutOfRangeError, error_for
from kafkalog.protocol.messages.fetch import FetchResponse
from kafkalog.records.errors import CorruptRecordError, RecordsError

logger = logging.getLogger(__name__)
_RESOLVE_S = 5.0
_AGAIN_S, _SILENCE_S = 1.0, 30.0
"""The time until positions are looked up again while other partitions are read; where a leader was silent, the second.
"""
_RESET = {"earliest": EARLIEST, "latest": LATEST}


class _Partition:
    """The position in one partition, and the records fetched ahead of it.

    Attributes:
        reset: The timestamp whose offset is the position, where `offset` is None.
        after_batch: The offset after the batch that `records` come from.
        is_failing: Whether the last fetch brought an error that is not retriable.
    """

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.offset: int | None = None
        self.reset: int | None = None
        self.high_watermark = -1
        self.records: deque[ConsumerRecord] = deque()
        self.batches: Iterator[tuple[list[ConsumerRecord], int]] = iter(())
        self.after_batch = -1
        self.buffered = False
        self.is_failing = False

    def move(self, offset: int | None, reset: int | None = None) -> None:
        self.offset, self.reset = offset, reset
        self.drop()

    def drop(self) -> None:
        """Forget fetched records."""
        self.records.clear()
        self.batches = iter(())
        self.buffered = False

    def take(self, count: int) -> list[ConsumerRecord]:
        """Take at most `count` fetched records, and move the position past them."""
        taken: list[ConsumerRecord] = []
        while len(taken) < count and self.buffered:
            if not self.records:
                try:
                    batch = next(self.batches, None)
                except RecordsError:
                    self.drop()
                    self.is_failing = True
                    if taken:
                        # The records before the bad batch are good. The next fetch meets the error again.
                        return taken
                    raise
                if batch is None:
                    self.buffered = False
                    break
                records, self.after_batch = batch
                self.records.extend(records)
            while self.records and len(taken) < count:
                taken.append(self.records.popleft())
            self.offset = taken[-1].offset + 1 if self.records else self.after_batch
        return taken


class _Asked(NamedTuple):
    """A fetch in flight: its offsets, and when its answer is late (`time.monotonic`)."""

    offsets: dict[TopicPartition, int]
    late_at: float


class SimpleConsumer(Closing):
    """Read assigned partitions (`assign`); the module says when to use it. Not safe for several threads at once."""

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self._config = config
        self._own_cluster = cluster is None
        self._cluster = cluster or Cluster(config)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._connections: dict[int, tuple[Broker, Connection]] = {}
        self._asked: dict[int, _Asked] = {}
        self._retry = Retry(config, float("inf"))
        self._blocked_until = 0.0
        self._resolve_at = 0.0
        """The time (`time.monotonic`) at which leaders that could not tell positions are asked again."""
        self._before: dict[_Partition, int | None] = {}
        """The positions of the partitions before the last `_take`."""

    # Positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Partitions that were assigned before keep their positions.

        New partitions begin where `auto.offset.reset` says, unless `seek` is called.
        """
        wanted = [TopicPartition(*tp) for tp in partitions]
        self._partitions = {tp: self._partitions.get(tp) or self._start(tp) for tp in wanted}
        self._resolve_at = 0.0

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return list(self._partitions)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at `offset`.

        Raises:
            ValueError: The offset is negative.
        """
        if offset < 0:
            raise ValueError(f"offset {offset} is negative; seek_to_beginning and seek_to_end find the log's ends")
        self._assigned(tp).move(offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions; of all partitions, unless some are given."""
        for tp in partitions or self._partitions:
            self._assigned(tp).move(None, EARLIEST)
        self._resolve_at = 0.0

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record at present, in these partitions; in all partitions, unless some are given."""
        for tp in partitions or self._partitions:
            self._assigned(tp).move(None, LATEST)
        self._resolve()

    def position(self, tp: TopicPartition) -> int:
        """Return the offset of the next record.

        Raises:
            ClientTimeoutError: The leader did not tell it in time.
            KafkaError: The leader reports an error that is not retriable.
        """
        partition = self._assigned(tp)
        if partition.offset is None:
            self._resolve()
        assert partition.offset is not None
        return partition.offset

    def find_positions(self) -> dict[TopicPartition, Exception]:
        """Look up the positions that are ends of logs; return why some are not known, and `poll` looks these up again.

        It waits for leaders that do not answer, or partitions that have none, for a few seconds.
        """
        limit = time.monotonic() + min(_RESOLVE_S, self._config.default_api_timeout)
        wanted = self._unknown()
        return self._noted(list_offsets_each(self._cluster, wanted, self._config.isolation_level, limit))

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the high watermark that the last fetch reported; -1 before the first fetch."""
        return self._assigned(tp).high_watermark

    def is_failing(self, tp: TopicPartition) -> bool:
        """Return whether the last fetch of the partition brought an error that is not retriable.

        `poll` raises the error of one partition at a time, and goes on with all of them when it is called again.
        """
        return self._assigned(tp).is_failing

    # Records

    def poll(self, timeout: float = 0.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return up to `max_records` (`max.poll.records`); wait `timeout` seconds for the first record.

        Records of a partition are in order. Lost connections and moved leaders raise nothing.

        Raises:
            KafkaError: The broker reports an error that is not retriable.
            OffsetOutOfRangeError: The log does not have the position, and `auto.offset.reset` is none.
            RecordsError: The bytes are not a record batch.
        """
        deadline = time.monotonic() + timeout
        limit = self._config.max_poll_records if max_records is None else max_records
        is_last = False
        while True:
            try:
                records, failure = self._take(limit)
                if records:
                    # The next fetch is under way while the caller works on these records.
                    self._ask_quietly()
                    return records
            except BaseException:
                # It is of a signal's handler, and keeps the records from the caller.
                self._go_back()
                raise
            if failure is not None:
                raise failure
            if is_last:
                return []
            pause = max(self._blocked_until - time.monotonic(), 0.0)
            left = deadline - time.monotonic()
            if pause:
                if pause > left:
                    time.sleep(max(left, 0.0))
                    return []
                time.sleep(pause)
            self._go_on(deadline)
            is_last = time.monotonic() >= deadline

    def close(self) -> None:
        """Close all connections."""
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._asked.clear()
        if self._own_cluster:
            self._cluster.close()

    # Inside

    def _start(self, tp: TopicPartition) -> _Partition:
        partition = _Partition(tp)
        partition.reset = _RESET.get(self._config.auto_offset_reset)
        return partition

    def _assigned(self, tp: TopicPartition) -> _Partition:
        found = self._partitions.get(tp)
        if found is None:
            raise ValueError(f"partition {TopicPartition(*tp)} is not assigned; assigned are {self.assignment()}")
        return found

    def _take(self, limit: int) -> tuple[list[ConsumerRecord], RecordsError | None]:
        """Take fetched records, one partition after the other.

        Returns:
            The records; and without records, the error of a partition, if one has an error. So an exception that this
            raises is one of a signal's handler.
        """
        taken: list[ConsumerRecord] = []
        self._before = {}
        for tp, partition in list(self._partitions.items()):
            if len(taken) >= limit:
                break
            self._before[partition] = partition.offset
            try:
                more = partition.take(limit - len(taken))
            except RecordsError as error:
                if taken:
                    break
                error.add_note(f"in partition {tp} after offset {partition.offset}")
                return [], error
            if more:
                taken += more
                # Move it to the end of the order, so that the other partitions have their turn.
                del self._partitions[tp]
                self._partitions[tp] = partition
        return taken, None

    def _go_back(self) -> None:
        """Move positions back to before the last `_take`, whose records the caller does not get."""
        for partition, offset in self._before.items():
            # An exception may have come while the partition changed its place.
            self._partitions.setdefault(partition.tp, partition)
            if offset is not None:
                partition.move(offset)

    def _unknown(self) -> dict[TopicPartition, int]:
        """Return the partitions whose position is only a timestamp.

        Raises:
            ConfigError: A partition has no position.
        """
        unknown: dict[TopicPartition, int] = {}
        for tp, partition in self._partitions.items():
            if partition.offset is None:
                if partition.reset is None:
                    raise ConfigError(f"partition {tp} has no position: seek to one, or set auto.offset.reset")
                unknown[tp] = partition.reset
        return unknown

    def _noted(self, answers: Answers) -> dict[TopicPartition, Exception]:
        """Move partitions to the offsets that leaders have told; return the errors of the others."""
        errors = {}
        for tp, answer in answers.items():
            if isinstance(answer, Exception):
                errors[tp] = answer
            else:
                self._partitions[tp].move(answer.offset)
        return errors

    def _resolve(self) -> None:
        """Look up the offsets of partitions whose position is only a timestamp, and wait for all of them."""
        if unknown := self._unknown():
            limit = time.monotonic() + self._config.default_api_timeout
            self._noted({**list_offsets(self._cluster, unknown, self._config.isolation_level, limit)})

    def _look_up(self, deadline: float) -> None:
        """Ask once for the offsets that `_resolve` waits for. Where others are known, an error does not hold these up.

        Raises:
            Exception: No position is known, or another try does not help.
        """
        unknown = self._unknown()
        is_none_known = len(unknown) == len(self._partitions)
        if not unknown or (time.monotonic() < self._resolve_at and not is_none_known):
            return
        # A poll that does not wait must get an answer at some time, too.
        limit = max(deadline if is_none_known else 0.0, time.monotonic() + _RESOLVE_S)
        errors = self._noted(ask_leaders(self._cluster, unknown, self._config.isolation_level, limit)).values()
        for error in errors:
            if len(errors) == len(self._partitions) or not is_retriable(error):
                raise error
        is_silent = any(isinstance(error, ClientTimeoutError) for error in errors)
        self._resolve_at = time.monotonic() + (_SILENCE_S if is_silent else _AGAIN_S)

    def _go_on(self, deadline: float) -> None:
        """Resolve positions, send fetches and receive answers, as far as `deadline` allows."""
        try:
            self._look_up(deadline)
        except Exception as error:
            self._block(error)
            return
        failure = self._ask()
        timeout = max(deadline - time.monotonic(), 0.0)
        try:
            # Where one leader cannot be asked, the answers of the others still count.
            self._wait(timeout if failure is None else min(timeout, self._config.retry_backoff))
        except Exception as error:
            failure = error
        if failure is not None:
            self._block(failure)

    def _ask_quietly(self) -> None:
        failure = self._ask()
        if failure is not None and is_retriable(failure):
            self._blocked_until = time.monotonic() + self._config.retry_backoff

    def _ask(self) -> Exception | None:
        """Send a fetch to every leader that has none in flight, for the partitions without fetched records.

        Returns an error that kept some leader from being asked, or None.
        """
        busy = {tp for asked in self._asked.values() for tp in asked.offsets}
        by_leader: dict[Broker, list[tuple[TopicPartition, int, int]]] = defaultdict(list)
        failure: Exception | None = None
        for tp, partition in self._partitions.items():
            if partition.offset is None or partition.buffered or tp in busy:
                continue
            try:
                leader = self._cluster.leader_now(tp)
            except (ClientError, KafkaError) as error:
                failure = error
                continue
            if leader.broker.node_id not in self._asked:
                by_leader[leader.broker].append((tp, partition.offset, leader.epoch))
        config = self._config
        for broker, wanted in by_leader.items():
            request = fetch_request(
                wanted,
                config,
                max_bytes=config.fetch_max_bytes,
                partition_max_bytes=config.max_partition_fetch_bytes,
                isolation_level=config.isolation_level,
            )
            try:
                connection = self._connected(broker)
                connection.send(request, min_version=MIN_VERSION, max_version=MAX_VERSION)
            except (ClientError, KafkaError) as error:
                failure = error
                continue
            patience = config.request_timeout + config.fetch_max_wait
            late_at = max(time.monotonic(), connection.serves_at) + patience
            self._asked[broker.node_id] = _Asked({tp: offset for tp, offset, _ in wanted}, late_at)
        return failure

    def _connected(self, broker: Broker) -> Connection:
        known = self._connections.get(broker.node_id)
        if known is not None:
            at, connection = known
            if at == broker and not connection.closed:
                return connection
            connection.close()
        connection = self._cluster.connect(broker)
        self._connections[broker.node_id] = (broker, connection)
        return connection

    def _wait(self, timeout: float) -> None:
        """Receive the answers that come within `timeout` seconds; at least one, if one has come already.

        Raises:
            ClientTimeoutError: An answer is late. The connection is closed, since its broker may be gone.
        """
        waiting = {node_id: self._connections[node_id][1] for node_id in self._asked}
        if not waiting:
            if timeout:
                time.sleep(min(timeout, self._config.retry_backoff))
            return
        ready = [node_id for node_id, connection in waiting.items() if connection.readable()]
        if not ready:
            poller = select.poll()
            nodes = {}
            for node_id, connection in waiting.items():
                poller.register(connection, select.POLLIN)
                nodes[connection.fileno()] = node_id
            until_late = min(asked.late_at for asked in self._asked.values()) - time.monotonic()
            ready = [nodes[fileno] for fileno, _ in poller.poll(max(min(timeout, until_late), 0.0) * 1000)]
        for node_id in ready:
            asked = self._asked.pop(node_id)
            self._receive(waiting[node_id], asked.offsets)
        now = time.monotonic()
        late = [node_id for node_id, asked in self._asked.items() if asked.late_at <= now]
        for node_id in late:
            del self._asked[node_id]
            waiting[node_id].close()
        if late:
            raise ClientTimeoutError(f"{waiting[late[0]].address} did not answer in time")

    def _receive(self, connection: Connection, asked: dict[TopicPartition, int]) -> None:
        response: FetchResponse = connection.receive()
        if response.error_code:
            raise error_for(response.error_code)
        failure: Exception | None = None
        for topic in response.responses:
            for data in topic.partitions:
                tp = TopicPartition(topic.topic, data.partition_index)
                partition, offset = self._partitions.get(tp), asked.get(tp)
                if partition is None or offset is None or partition.offset != offset or partition.buffered:
                    # The partition was moved or unassigned in the meantime.
                    continue
                try:
                    fetched = read_partition(tp, data, offset)
                except OffsetOutOfRangeError:
                    reset = _RESET.get(self._config.auto_offset_reset)
                    if reset is None:
                        partition.is_failing = True
                        raise
                    logger.warning(
                        "partition %s has no offset %d: going on with the %s",
                        tp,
                        offset,
                        self._config.auto_offset_reset,
                    )
                    partition.move(None, reset)
                    self._resolve_at = 0.0
                    continue
                except CorruptMessageError as error:
                    # The broker cannot read the batch, and will not be able to the next time.
                    partition.is_failing, failure = True, CorruptRecordError(error.message)
                    continue
                except Exception as error:
                    partition.is_failing = not is_retriable(error)
                    failure = error if failure is None or partition.is_failing else failure
                    continue
                partition.is_failing = False
                self._retry.reset()
                partition.high_watermark = fetched.high_watermark
                partition.batches = decode_records(fetched, tp, offset, self._config)
                partition.buffered = len(fetched.records) > 0
        if failure is not None:
            raise failure

    def _block(self, error: Exception) -> None:
        """After an error, raise it; if it is retriable, forget the leaders and pause."""
        pause = self._retry.pause(error)
        if isinstance(error, ConnectionFailedError | ClientTimeoutError):
            logger.info("trying again: %s", error)
        for node_id in [node_id for node_id, (_, connection) in self._connections.items() if connection.closed]:
            del self._connections[node_id]
            self._asked.pop(node_id, None)
        self._cluster.forget({tp.topic for tp in self._partitions})
        self._blocked_until = time.monotonic() + pause

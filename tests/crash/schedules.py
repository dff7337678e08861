"""Run seeded schedules of a broker on a disk that loses unsynced data, and check it after a power cut.

A schedule drives a whole broker in this process at random (registry, log directories, partitions; only its sockets are
idle). Topics are created and deleted. Plain, idempotent and transactional producers write. Logs are rolled, flushed,
checkpointed, compacted, and cut by retention and DeleteRecords. The broker is killed, started and stopped cleanly. All
its file operations are recorded. Then the power fails, at several moments of the record and in several ways at each,
and a broker is started on what is left. The next life begins with one of these images.

`judge.Judge` has the conditions for every image. The same seed makes the same schedule::

    python -m tests.crash.schedules --seed 17              one, printed step by step
    python -m tests.crash.schedules --first 0 --count 3000 many
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path

from broker.controller.decisions.planning import NewTopic
from broker.log.append.validation import Origin
from broker.log.producer_state.producer_entry import SEQUENCE_MASK
from broker.log.retention.retention_turns import run_retention
from broker.replica.partition import Partition
from kafkalog.records.batch import iter_headers
from tests.broker.log.support import NOW, batch, marker
from tests.crash import compacted
from tests.crash.host import Host, Key, Row, all_rows, rows_of
from tests.crash.judge import PRODUCERS, Judge, Life, Moment, PartitionState
from tests.crash.lossy_disk import Disk, RecordingOps
from tests.support.in_process.registry import having

TOPICS = ("a", "b", "c")
COMPACTED = "c"
KEYS = (b"k", b"l", b"m", b"n")
LIVES = 2
STEPS = 40
CUTS = 5
"""The number of power cuts in each life, each at another moment."""

MEMORY = "/dev/shm"
"""A file system in memory, if there is one: nothing needs to outlive the test."""


class Driver:
    """One life: a broker does random actions, which are recorded."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, life: Life, settings: dict[str, str]):
        self.loop = loop
        self.chance = chance
        self.life = life
        self.settings = settings
        self.stored: dict[Key, int] = {}
        self.ops = RecordingOps(life.entries.append)
        self.ops.adopt(life.root)
        self.host = Host(loop, life.root, settings, self.ops)
        # A record of the dead is not told from one of the living: what is on the device now has been there.
        for key, partition in self.host.partitions().items():
            if partition.log.config.compact:
                life.records[key] = compacted.records_of(partition.log)
            else:
                life.rows[key] = all_rows(partition.log)
        self.durable_at_start = {key: p.log.log_end_offset for key, p in self.host.partitions().items()}
        self.look()

    def look(self) -> None:
        """Record the state that is known now."""
        partitions = {
            key: PartitionState(
                partition.log.log_start_offset,
                partition.log.log_end_offset,
                max(partition.log.recovery_point, self.durable_at_start.get(key, 0)),
                self.stored.get(key, 0),
            )
            for key, partition in self.host.partitions().items()
        }
        self.life.moments.append(Moment(len(self.life.entries), dict(self.host.topics), partitions))

    def drive(self) -> None:
        acts = [self.produce] * 12 + [self.flush, self.flush_due, self.checkpoint, self.checkpoint_starts] * 2 + [
            self.create, self.create, self.delete, self.retain, self.delete_records, self.roll, self.restart,
            self.restart_cleanly, self.new_epoch, self.remove_files, self.grow, *[self.compact] * 4,
        ]  # fmt: skip
        self.create()
        self.look()
        for _ in range(self.chance.randrange(5, STEPS)):
            act = self.chance.choice(acts)
            self.life.told.append(f"{len(self.life.entries)}: {act.__name__}")
            act()
            assert not self.host.server.logs.offline_dirs
            self.look()

    # -- what a broker does --------------------------------------------------------------------------------

    def one(self) -> tuple[Key, Partition] | None:
        # Topic ids are drawn anew each time: the order must not be theirs.
        found = sorted(self.host.partitions().items(), key=lambda item: item[1].key)
        return self.chance.choice(found) if found else None

    def produce(self) -> None:
        for _ in range(self.chance.randrange(1, 6)):
            found = self.one()
            if found is None:
                return
            key, partition = found
            self.append(key, partition)
            if partition.must_sync:
                self.host.server.replicas.flushes.begin(partition)
                self.host.settle()
                assert partition.log.recovery_point == partition.log.log_end_offset

    def append_keyed(self, key: Key, partition: Partition) -> None:
        chance, log = self.chance, partition.log
        values = [
            b"%d:" % log.log_end_offset + chance.randbytes(chance.randrange(200)) for _ in range(chance.randrange(1, 4))
        ]
        name = chance.choice(KEYS)
        data = batch(values, key=name, timestamp=NOW)
        info = log.append_batch(data, leader_epoch=partition.leader_epoch, now_ms=NOW)
        partition.advance_high_watermark()
        known = self.life.records.setdefault(key, {})
        known.update((info.first_offset + index, (name, value)) for index, value in enumerate(values))

    def append(self, key: Key, partition: Partition) -> None:
        if partition.log.config.compact:
            self.append_keyed(key, partition)
            return
        chance, log = self.chance, partition.log
        producer = chance.choice((-1, -1, *PRODUCERS))
        entry = log.producers.producers.get(producer)
        open_transaction = entry is not None and entry.transaction_first_offset >= 0
        epoch = entry.epoch if entry is not None else 0
        if open_transaction and chance.randrange(3) == 0:
            data = marker(producer, epoch=epoch, commit=chance.randrange(2) == 0)
            info = log.append_batch(data, leader_epoch=partition.leader_epoch, now_ms=NOW, origin=Origin.COORDINATOR)
            partition.advance_high_watermark()
        else:
            transactional = producer >= 0 and (open_transaction or chance.randrange(2) == 0)
            values = [
                b"%d:" % log.log_end_offset + chance.randbytes(chance.randrange(200))
                for _ in range(chance.randrange(1, 4))
            ]
            data = batch(
                values, timestamp=NOW + log.log_end_offset, producer_id=producer,
                producer_epoch=epoch if producer >= 0 else -1,
                base_sequence=(entry.next_sequence if entry else 0) if producer >= 0 else -1,
                is_transactional=transactional,
            )  # fmt: skip
            info = log.append_batch(data, leader_epoch=partition.leader_epoch, now_ms=NOW, in_transaction=transactional)
            partition.advance_high_watermark()
        ((_, header),) = iter_headers(data)
        sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK if producer >= 0 else -1
        self.life.rows.setdefault(key, []).append(
            Row(
                info.first_offset, info.last_offset, partition.leader_epoch, header.producer_id, sequence,
                header.is_control, bytes(data),
            )
        )  # fmt: skip

    def create(self) -> None:
        name = self.chance.choice(TOPICS)
        config: dict[str, str | None] = {
            "flush.messages": str(self.chance.choice((1, 2, 5, 30, 1 << 40))),
            "segment.bytes": str(self.chance.choice((800, 1500, 4000))),
            "index.interval.bytes": str(self.chance.choice((0, 150, 4096))),
            "segment.index.bytes": "240",
            "file.delete.delay.ms": str(self.chance.choice((0, 60_000))),
            "retention.bytes": "2000",
            "preallocate": self.chance.choice(("false", "false", "true")),
        }
        if name == COMPACTED:
            # Compacted when a schedule says so.
            config.update({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        self.host.run(
            self.host.server.broker.topics.create([NewTopic(name, self.chance.randrange(1, 4), config=config)])
        )

    def grow(self) -> None:
        name = self.chance.choice(TOPICS)
        topic = self.host.server.store.state.topics.get(name)
        if topic is not None and len(topic.partitions) < 4:
            self.host.run(self.host.server.broker.topics.grow(name, len(topic.partitions) + 1, None))

    def delete(self) -> None:
        name = self.chance.choice(TOPICS)
        outcome = self.host.run(self.host.server.broker.topics.delete([name]))
        if outcome[name] is None and self.chance.randrange(2):
            self.create()

    def flush(self) -> None:
        found = self.one()
        if found is not None:
            found[1].log.flush()

    def flush_due(self) -> None:
        self.host.server.logs.run_flushes(NOW)

    def checkpoint(self) -> None:
        self.host.server.logs.checkpoints.write_recovery_points()

    def checkpoint_starts(self) -> None:
        before = {key: p.log.log_start_offset for key, p in self.host.partitions().items()}
        self.host.server.logs.checkpoints.write_log_start_offsets()
        self.host.server.logs.checkpoints.write_high_watermarks()
        for key, partition in self.host.partitions().items():
            if before[key] > partition.log.segments[0].base_offset:
                self.stored[key] = before[key]

    def retain(self) -> None:
        list(run_retention(self.host.server.logs, NOW))

    def remove_files(self) -> None:
        self.host.server.logs.run_deletions(NOW + self.chance.choice((0, 100_000)))

    def delete_records(self) -> None:
        found = self.one()
        if found is not None and found[1].log.config.delete:
            log = found[1].log
            found[1].delete_records(self.chance.randint(log.log_start_offset, log.log_end_offset))

    def compact(self) -> None:
        """Clean the dirtiest log, if there is one."""
        self.host.run(self.host.server.cleaner._clean_filthiest(0))

    def roll(self) -> None:
        found = self.one()
        if found is not None:
            found[1].log.roll(NOW)

    def new_epoch(self) -> None:
        found = self.one()
        if found is None:
            return
        partition = found[1]
        store = self.host.server.store
        topic = store.state.topics[partition.topic]
        states = list(topic.partitions)
        states[partition.index] = replace(states[partition.index], leader_epoch=partition.leader_epoch + 1)
        self.host.run(store.commit(having(replace(topic, partitions=tuple(states)))))
        partition.become(states[partition.index])

    def restart(self) -> None:
        """Restart after kill -9: everything written is still there, flushed or not."""
        before = {key: (p.log.log_start_offset, rows_of(p.log)) for key, p in self.host.partitions().items()}
        flushed = {key: p.log.recovery_point for key, p in self.host.partitions().items()}
        topics = dict(self.host.topics)
        self.host.kill()
        self.host = Host(self.loop, self.life.root, self.settings, self.ops)
        assert self.host.topics == topics
        for key, partition in self.host.partitions().items():
            start, rows = before[key]
            log = partition.log
            assert log.log_start_offset <= start
            assert [row for row in rows_of(log) if row.last >= start] == rows, f"{key}: kill -9 lost records"
            # What was forced once is forced still.
            self.durable_at_start[key] = max(self.durable_at_start.get(key, 0), flushed[key])

    def restart_cleanly(self) -> None:
        self.host.stop()
        for key, partition in self.host.partitions().items():
            self.durable_at_start[key] = partition.log.log_end_offset
        self.look()
        self.host = Host(self.loop, self.life.root, self.settings, self.ops)


def one_life(
    loop: asyncio.AbstractEventLoop, chance: random.Random, place: Path, root: Path, settings: dict[str, str]
) -> Path:
    """Drive a broker in `root`, cut its power and judge the results; return the image for the next life."""
    life = Life(root)
    driver = Driver(loop, chance, life, settings)
    try:
        driver.drive()
    finally:
        if chance.randrange(4) == 0 and not sys.exc_info()[0]:
            driver.restart_cleanly()
        driver.host.kill()
    disk = Disk(str(root))
    first = sum(entry[0] == "adopt" for entry in life.entries)
    cuts = sorted(chance.randint(first, len(life.entries)) for _ in range(CUTS - 1))
    done = 0
    image = root
    for number, at in enumerate([*cuts, len(life.entries)]):
        disk.play(life.entries[done:at])
        done = at
        seed = chance.getrandbits(32)
        image = place / f"{root.name}-cut-{number}"
        disk.image(image, random.Random(seed).randrange)
        try:
            Judge(loop, life, settings).judge(image, at)
        except BaseException:
            near = [f"    {entry[0]} {entry[1:3]}" for entry in life.entries[max(at - 12, 0) : at]]
            print(f"power cut after {at} of {len(life.entries)} operations, image seed {seed}; steps:", file=sys.stderr)
            print("   ", "; ".join(life.told), file=sys.stderr)
            print("\n".join(near), file=sys.stderr)
            raise
        shutil.rmtree(image)
    disk.image(image, random.Random(seed).randrange)
    return image


def run_schedule(seed: int, keep: Path | None = None) -> int:
    """Run one schedule; return the number of power cuts. A failure's message says how to repeat it.

    Args:
        keep: a directory for its files, which are not removed.
    """
    chance = random.Random(seed)
    place = keep or Path(tempfile.mkdtemp(prefix="kafkalog-schedule-", dir=MEMORY if os.path.isdir(MEMORY) else None))
    settings = {
        "directories": chance.choice(("one", "one", "one,two")),
        "num.recovery.threads.per.data.dir": "1",
        "log.retention.check.interval.ms": "86400000",
        "log.cleaner.enable": "false",
        "log.cleaner.dedupe.buffer.size": str(1 << 20),
    }
    loop = asyncio.new_event_loop()
    try:
        root = place / "life-0"
        root.mkdir()
        for number in range(LIVES):
            image = one_life(loop, chance, place, root, settings)
            root = place / f"life-{number + 1}"
            image.rename(root)
    except BaseException as error:
        command = f"python -m tests.crash.schedules --seed {seed}"
        raise AssertionError(f"schedule {seed}: {error!r}\nto run it again: {command}") from error
    finally:
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)
    return LIVES * CUTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.schedules", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--first", type=int, default=0, help="first seed of many")
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--keep", type=Path, help="leave the files of one here")
    arguments = parser.parse_args()
    seeds = (
        [arguments.seed] if arguments.seed is not None else range(arguments.first, arguments.first + arguments.count)
    )
    failed = cuts = 0
    for seed in seeds:
        try:
            cuts += run_schedule(seed, arguments.keep)
        except AssertionError:
            failed += 1
            traceback.print_exc()
    print(f"{len(seeds)} schedules, {cuts} power cuts judged, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())

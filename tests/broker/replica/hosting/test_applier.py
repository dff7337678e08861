"""Tests of applying a controller's decisions to logs: which are applied, which are stale, and the resulting logs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.server import BrokerConfig
from broker.config.stored_topic import ALL_REPLICAS, UNREADABLE
from broker.log.log_manager import LogManager
from broker.metadata.model import NO_TOPIC_ID, PartitionState, TopicState
from broker.net.sockets.network import LoopNetwork
from broker.replica.fetching.following import Following
from broker.replica.hosting.applier import (
    APPLIED_AT_ONCE,
    DELETION_EPOCH,
    LeaderAndIsr,
    ReplicaApplier,
    StopReplica,
)
from broker.replica.hosting.retries import FIRST_SECONDS
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.runtime import Runtime
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.errors import ErrorCode, KafkaStorageError, StaleBrokerEpochError, StaleControllerEpochError
from tests.support.wire import batch

HERE, ELSEWHERE = 0, 9
TOPIC_ID = uuid.UUID(int=77)
NOW = 1_700_000_000_000
T0 = ("t", 0)


class World:
    """One broker's partitions over logs in `directories`."""

    def __init__(self, *directories: Path) -> None:
        config = BrokerConfig({"log.dirs": ",".join(map(str, directories))})
        self.logs = LogManager(list(directories), config.log_config({}), clock=lambda: NOW)
        self.logs.load_all({})
        loop = asyncio.get_running_loop()
        self.runtime = Runtime(loop, ThreadWorkers(1), LoopNetwork(loop), lambda: NOW)
        self.replicas = ReplicaManager(self.runtime, HERE, config, self.logs)
        self.applier = ReplicaApplier(self.replicas, lambda topic: {"max.message.bytes": "777"})

    async def lead(self, *wanted: LeaderAndIsr, controller_epoch: int = 1) -> dict[tuple[str, int], ErrorCode]:
        return await self.applier.apply_leader_and_isr(controller_epoch, wanted)

    async def stop(self, *wanted: StopReplica, controller_epoch: int = 1) -> dict[tuple[str, int], ErrorCode]:
        return await self.applier.stop_replica(controller_epoch, wanted)

    def close(self) -> None:
        self.runtime.workers.close(wait=True)
        self.logs.shutdown()


def decided(
    index: int = 0, epoch: int = 0, leader: int = HERE, topic_id: uuid.UUID = TOPIC_ID, **fields: Any
) -> LeaderAndIsr:
    replicas = fields.pop("replicas", (HERE, ELSEWHERE))
    return LeaderAndIsr("t", topic_id, index, PartitionState(replicas, (leader,), leader, epoch), **fields)


def with_world(work: Callable[[World], Coroutine[Any, Any, None]], *directories: Path) -> None:
    async def main() -> None:
        for directory in directories:
            directory.mkdir(exist_ok=True)
        world = World(*directories)
        try:
            await work(world)
        finally:
            world.close()

    asyncio.run(main())


def test_roles_are_taken_and_newer_epochs_only_change_them(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        both = await world.lead(decided(0, is_new=True), decided(1, leader=ELSEWHERE, is_new=True))
        assert both == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
        first, second = (world.replicas.require("t", index) for index in (0, 1))
        assert (first.is_leader, second.is_leader, second.leader) == (True, False, ELSEWHERE)
        assert first.log.config.max_message_bytes == 777
        assert await world.lead(decided(0, leader=ELSEWHERE)) == {T0: ErrorCode.STALE_CONTROLLER_EPOCH}
        assert first.is_leader
        assert await world.lead(decided(0, epoch=1, leader=ELSEWHERE)) == {T0: ErrorCode.NONE}
        assert (first.is_leader, first.leader_epoch) == (False, 1)
        assert await world.lead(decided(0)) == {T0: ErrorCode.STALE_CONTROLLER_EPOCH}
        assert not first.is_leader

    with_world(work, tmp_path)


def test_what_cannot_be_applied_is_answered_for_each_partition(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.lead(decided(0, is_new=True))
        told = await world.lead(
            decided(0, epoch=1, topic_id=uuid.UUID(int=78)), decided(1, replicas=(ELSEWHERE,)), decided(2, is_new=True)
        )
        assert told == {
            ("t", 0): ErrorCode.INCONSISTENT_TOPIC_ID,
            ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 2): ErrorCode.NONE,
        }
        assert world.replicas.require("t", 0).leader_epoch == 0
        assert await world.lead(decided(0, epoch=1, topic_id=NO_TOPIC_ID)) == {T0: ErrorCode.NONE}

    with_world(work, tmp_path)


def test_no_empty_log_takes_the_place_of_one_on_a_disk_that_failed(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        failed = world.logs.log_dirs[1]
        world.logs.fail_directory(failed.path, "it broke")
        assert await world.lead(decided(0)) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        assert await world.stop(StopReplica("t", 0, delete=True)) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        assert await world.lead(decided(1, is_new=True)) == {("t", 1): ErrorCode.NONE}

    with_world(work, tmp_path / "a", tmp_path / "b")


def test_a_log_on_a_disk_that_failed_is_not_told_to_be_deleted_after_its_role_has_ended(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        failed = world.logs.log_dirs[1]
        world.logs.fail_directory(failed.path, "it broke")
        assert await world.lead(decided(0)) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        deletion = StopReplica("t", 0, DELETION_EPOCH, delete=True)
        # So does a controller that deletes a topic: both in one decision. It may delete again later.
        assert await world.stop(StopReplica("t", 0, DELETION_EPOCH)) == {T0: ErrorCode.NONE}
        assert await world.stop(deletion) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        assert await world.stop(deletion) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        # A new topic of this name has a log that can be deleted.
        assert await world.lead(decided(0, epoch=1, is_new=True)) == {T0: ErrorCode.NONE}
        assert await world.stop(deletion) == {T0: ErrorCode.NONE}

    with_world(work, tmp_path / "a", tmp_path / "b")


def test_a_stopped_replica_keeps_its_log_unless_it_is_deleted(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.lead(decided(0, epoch=3, is_new=True))
        partition = world.replicas.require("t", 0)
        partition.append(memoryview(batch([b"x"])), 1, NOW)
        assert await world.stop(StopReplica("t", 0, 2)) == {T0: ErrorCode.FENCED_LEADER_EPOCH}
        assert world.replicas.get("t", 0) is partition
        assert await world.stop(StopReplica("t", 0, 3)) == {T0: ErrorCode.NONE}
        assert world.replicas.get("t", 0) is None
        assert not partition.is_leader
        await world.lead(decided(0, epoch=4))
        assert world.replicas.require("t", 0).log.log_end_offset == 1
        assert await world.stop(StopReplica("t", 0, DELETION_EPOCH, delete=True)) == {T0: ErrorCode.NONE}
        await world.lead(decided(0, is_new=True))
        assert world.replicas.require("t", 0).log.log_end_offset == 0

    with_world(work, tmp_path)


def test_a_log_that_is_not_hosted_is_deleted_too(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.lead(decided(0, is_new=True))
        await world.stop(StopReplica("t", 0))
        assert (tmp_path / "t-0").exists()
        assert await world.stop(StopReplica("t", 0, delete=True)) == {T0: ErrorCode.NONE}
        assert not (tmp_path / "t-0").exists()
        assert await world.stop(StopReplica("t", 0, delete=True)) == {T0: ErrorCode.NONE}

    with_world(work, tmp_path)


def test_a_controller_that_was_replaced_changes_nothing(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.lead(decided(0, is_new=True), controller_epoch=5)
        with pytest.raises(StaleControllerEpochError):
            await world.lead(decided(0, epoch=1, leader=ELSEWHERE), controller_epoch=4)
        with pytest.raises(StaleControllerEpochError):
            await world.stop(StopReplica("t", 0, delete=True), controller_epoch=4)
        assert world.replicas.require("t", 0).is_leader
        assert await world.lead(decided(0, epoch=1, leader=ELSEWHERE), controller_epoch=5) == {T0: ErrorCode.NONE}
        assert world.applier.controller_epoch == 5

    with_world(work, tmp_path)


def test_requests_are_carried_out_in_their_order(tmp_path: Path) -> None:
    """A deletion does not overtake the creation before it, however many partitions that has."""

    async def work(world: World) -> None:
        count = 30
        made, stopped, again = await asyncio.gather(
            world.lead(*(decided(index, is_new=True) for index in range(count))),
            world.stop(*(StopReplica("t", index, DELETION_EPOCH, delete=True) for index in range(count))),
            world.lead(decided(0, topic_id=uuid.UUID(int=78), is_new=True)),
        )
        assert set(made.values()) == set(stopped.values()) == set(again.values()) == {ErrorCode.NONE}
        assert [partition.key for partition in world.replicas] == [T0]
        assert [path.name for path in tmp_path.glob("t-*") if "delete" not in path.name] == ["t-0"]

    with_world(work, tmp_path)


def test_a_request_that_has_become_void_is_not_carried_out_further(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        ended = False

        def check() -> None:
            if ended:
                raise StaleBrokerEpochError

        def end() -> None:
            nonlocal ended
            ended = True
            world.replicas.resign()

        wanted = [decided(index, is_new=True) for index in range(2 * APPLIED_AT_ONCE)]
        leading = asyncio.ensure_future(world.applier.apply_leader_and_isr(1, wanted, check))
        waiting = asyncio.ensure_future(
            world.applier.stop_replica(1, [StopReplica("t", index) for index in range(2 * APPLIED_AT_ONCE)], check)
        )
        while not len(world.replicas):
            await asyncio.sleep(0)
        end()
        results = await asyncio.gather(leading, waiting, return_exceptions=True)
        assert [type(each) for each in results] == [StaleBrokerEpochError] * 2
        assert 0 < len(world.replicas) < len(wanted)
        assert not any(partition.is_leader for partition in world.replicas)

    with_world(work, tmp_path)


def test_all_roles_end_though_a_listener_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(world: World) -> None:
        await world.lead(*(decided(index, is_new=True) for index in range(3)))
        told: list[tuple[tuple[str, int], int]] = []

        def fails(partition: Partition) -> None:
            raise KeyError(partition.key)

        def tells(partition: Partition) -> None:
            told.append((partition.key, sum(each.is_leader for each in world.replicas)))

        world.replicas.on_role_changed += [fails, tells]
        world.replicas.resign()
        assert told == [(("t", index), 0) for index in range(3)]
        assert "t-2 is not taken over" in caplog.text

    with_world(work, tmp_path)


def test_an_offline_partition_is_not_tried_again_after_its_role_has_ended(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        failed = world.logs.log_dirs[1]
        world.logs.fail_directory(failed.path, "it broke")
        assert await world.lead(decided(0)) == {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        world.replicas.resign()
        failed.offline = None
        await asyncio.sleep(FIRST_SECONDS + 0.3)
        assert world.replicas.get(*T0) is None
        with pytest.raises(KafkaStorageError):
            world.replicas.require(*T0)
        assert await world.lead(decided(0)) == {T0: ErrorCode.NONE}

    with_world(work, tmp_path / "a", tmp_path / "b")


def test_a_role_that_has_ended_is_not_taken_when_the_former_log_is_set_aside(tmp_path: Path) -> None:
    """The partition may have other replicas since the broker was taken for dead, and be assigned to it no more."""
    other = uuid.UUID(int=78)

    async def work(world: World) -> None:
        await world.lead(decided(0, is_new=True))
        await world.stop(StopReplica("t", 0))
        assert await world.lead(decided(0, epoch=1, topic_id=other)) == {T0: ErrorCode.INCONSISTENT_TOPIC_ID}
        world.replicas.resign()
        world.logs.set_aside(*T0)
        world.replicas.retry(*T0)
        assert (world.replicas.get(*T0), world.logs.get(*T0)) == (None, None)
        assert await world.lead(decided(0, epoch=2, topic_id=other)) == {T0: ErrorCode.NONE}

    with_world(work, tmp_path)


def test_a_leader_is_asked_by_name_if_the_controller_does_not_tell_ids(tmp_path: Path) -> None:
    """The controller may be a broker that an upgrade has not reached yet. Then the leader may be such a one, too."""

    async def work(world: World) -> None:
        def asked_by() -> uuid.UUID:
            return Following.begin(world.replicas.require("t", 0), truncates_on_fetch=True).topic_id

        await world.lead(decided(0, epoch=1, leader=ELSEWHERE, is_new=True))
        assert asked_by() == TOPIC_ID
        await world.lead(decided(0, epoch=1, leader=ELSEWHERE, topic_id=NO_TOPIC_ID), controller_epoch=2)
        assert asked_by() == NO_TOPIC_ID
        await world.lead(decided(0, epoch=2, leader=ELSEWHERE, topic_id=NO_TOPIC_ID), controller_epoch=2)
        assert asked_by() == NO_TOPIC_ID
        assert world.replicas.require("t", 0).log.topic_id == TOPIC_ID
        await world.lead(decided(0, epoch=3, leader=ELSEWHERE), controller_epoch=3)
        assert asked_by() == TOPIC_ID

    with_world(work, tmp_path)


def test_a_topic_gets_its_id_in_the_epoch_in_force_or_a_newer_one(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.lead(decided(0, epoch=3, topic_id=NO_TOPIC_ID, is_new=True))
        log = world.replicas.require("t", 0).log
        assert await world.lead(decided(0, epoch=2)) == {T0: ErrorCode.STALE_CONTROLLER_EPOCH}
        assert log.topic_id is None
        assert await world.lead(decided(0, epoch=3)) == {T0: ErrorCode.NONE}
        assert log.topic_id == TOPIC_ID
        assert await world.lead(decided(0, epoch=3)) == {T0: ErrorCode.STALE_CONTROLLER_EPOCH}

    with_world(work, tmp_path)


def test_defaults_before_a_configuration_was_read_are_not_what_was_read_last(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        applier = ReplicaApplier(world.replicas, lambda topic: None)
        assert await applier.apply_leader_and_isr(1, [decided(is_new=True)]) == {T0: ErrorCode.NONE}
        partition = world.replicas.require(*T0)
        assert partition.min_insync == 1
        world.replicas.reconfigure(TopicState("t", TOPIC_ID, (), {UNREADABLE: "no JSON"}))
        assert (partition.min_insync, partition.log.config.requires_keys) == (ALL_REPLICAS, True)

    with_world(work, tmp_path)


def test_one_partition_that_fails_does_not_keep_the_others_from_their_roles(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        def breaks(topic: str) -> dict[str, str]:
            raise ZeroDivisionError

        applier = ReplicaApplier(world.replicas, lambda topic: breaks(topic) if topic == "u" else {})
        wanted = [replace(decided(0, is_new=True), topic="u"), decided(2, is_new=True)]
        assert await applier.apply_leader_and_isr(1, wanted) == {
            ("u", 0): ErrorCode.UNKNOWN_SERVER_ERROR,
            ("t", 2): ErrorCode.NONE,
        }

    with_world(work, tmp_path)

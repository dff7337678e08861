"""Whole brokers on simulated hosts, as a cluster of their own: one of them is the controller."""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.znodes import paths
from broker.modes.cluster import ClusterMode
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_topic_partitions import (
    WAITS_SINCE,
    DescribeTopicPartitionsRequest,
    PartitionExplanation,
    TopicRequest,
)
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkalog.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.broker.controller.cluster.support import DEADLINE_S, IDS, Cluster, play
from tests.support.amount import mostly_exhaustive


@pytest.mark.parametrize("protocol", ["2.6", "2.8", "3.9"])
def test_a_cluster_lives_without_apache_kafka(tmp_path: Path, protocol: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", {1, 2, 3})
        assert await cluster.produce("words", b"one") == 0
        # The controller stops: another one takes over, and other leaders lead.
        former = cluster.boss()
        assert former is not None
        await cluster.hosts[former].link.close()
        await cluster.hosts[former].stop()
        cluster.running.discard(former)
        await cluster.until(lambda: cluster.boss() is not None)
        await cluster.until_in_sync("words", set(cluster.running))
        assert await cluster.produce("words", b"two") == 1
        cluster.hosts[former].link = cluster.hosts[former].link_to(9092)
        await cluster.hosts[former].start()
        cluster.running.add(former)
        await cluster.until_in_sync("words", {1, 2, 3})
        assert await cluster.produce("words", b"three") == 2
        boss = cluster.boss()
        assert boss is not None
        answer = await cluster.hosts[boss].ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name="words")], timeout_ms=20_000), 6
        )
        assert answer.responses[0].error_code == 0
        await cluster.until(lambda: not cluster.ensemble.exists(paths.topic("words")))
        await cluster.until(
            lambda: all(host.server.store.state.partition("words", 0) is None for host in cluster.hosts.values())
        )

    play(tmp_path, scenario, protocol)


def test_administrators_ask_the_controller(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        assert boss is not None
        other = next(number for number in IDS if number != boss)
        wanted = CreateTopicsRequest(topics=[CreatableTopic(name="words", num_partitions=1, replication_factor=1)])
        refused = await cluster.hosts[other].ask(wanted, 7)
        assert refused.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        refused = await cluster.hosts[other].ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="words")]), 6)
        assert refused.responses[0].error_code == ErrorCode.NOT_CONTROLLER
        await cluster.create("words", 2)
        state = cluster.partition("words")
        assert state is not None
        third = next(number for number in IDS if number not in state.replicas)
        moved = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="words",
                    partitions=[ReassignablePartition(partition_index=0, replicas=[third, state.replicas[1]])],
                )
            ]
        )
        refused = await cluster.hosts[other].ask(moved, 0)
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        answer = await cluster.hosts[boss].ask(moved, 0)
        assert answer.responses[0].partitions[0].error_code == 0
        await cluster.until_in_sync("words", {third, state.replicas[1]})
        await cluster.until(lambda: not cluster.hosts[boss].server.broker.controller.context.reassigning)  # type: ignore[union-attr]
        listed = await cluster.hosts[boss].ask(ListPartitionReassignmentsRequest(), 0)
        assert (listed.error_code, listed.topics) == (0, [])
        elected = await cluster.hosts[boss].ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), 2)
        assert elected.error_code == 0
        await cluster.until(lambda: (found := cluster.partition("words")) is not None and found.leader == third)
        # The replica that left has no log any more.
        await cluster.until(lambda: cluster.hosts[state.replicas[0]].server.replicas.get("words", 0) is None)

    play(tmp_path, scenario)


def test_it_is_known_what_a_reassignment_waits_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        assert boss is not None
        await cluster.create("words", 1)
        await cluster.until(lambda: cluster.partition("words") is not None)
        state = cluster.partition("words")
        assert state is not None
        gone = next(number for number in IDS if number not in (boss, *state.replicas))
        mode = cluster.hosts[gone].server.mode
        assert isinstance(mode, ClusterMode)
        # It is not in sync before it goes.
        mode.member.fetchers.begin_leaving()
        partitions = [ReassignablePartition(partition_index=0, replicas=[*state.replicas, gone])]
        moved = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="words", partitions=partitions)])
        assert (await cluster.hosts[boss].ask(moved, 0)).responses[0].partitions[0].error_code == 0
        await cluster.hosts[gone].stop()
        cluster.running.discard(gone)
        controller = cluster.hosts[boss].server.broker.controller
        assert controller is not None

        def last() -> tuple[str, str]:
            known = controller.explain(("words", 0))
            assert known is not None
            change = known.changes[-1]
            return change.what, change.cause

        await cluster.until(lambda: last()[0].startswith(WAITS_SINCE))
        assert last()[1] == f"broker {gone} is not registered"
        assert f"words-0: {last()[0]}, because {last()[1]}" in caplog.messages

    play(tmp_path, scenario)


def test_it_is_known_why_an_isr_changed_after_another_controller_is_elected_too(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", {1, 2, 3})
        boss, state = cluster.boss(), cluster.partition("words")
        assert boss is not None
        assert state is not None

        async def explain(number: int) -> PartitionExplanation:
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="words", explained=[0])])
            answer = await cluster.hosts[number].ask(request, 0)
            found = answer.topics[0].partitions[0].explanation
            assert isinstance(found, PartitionExplanation)
            return found

        # A follower stops to fetch, but is registered: the leader says how far it has come, and since when.
        stuck = next(number for number in IDS if number not in (boss, state.leader))
        await cluster.produce("words", b"one")
        await cluster.hosts[stuck].server.broker.member.fetchers.close()  # type: ignore[union-attr]
        await cluster.produce("words", b"two")
        rest = set(IDS) - {stuck}
        await cluster.until_in_sync("words", rest)
        told = await explain(boss)
        assert (told.is_member, told.controller_epoch, told.known_since_ms) == (True, 1, -1)
        created, shrunk = told.changes[0], told.changes[-1]
        assert created.cause == "the topic was created"
        assert shrunk.what.endswith(f"-> {[each for each in state.isr if each in rest]}")
        assert shrunk.cause.startswith(
            f"broker {state.leader}, the leader, asked for it (AlterPartition): {stuck} has not"
        )
        assert "lacks 1 records (its log ends at 1)" in shrunk.cause
        assert created.at_ms <= shrunk.at_ms
        of_leader = await explain(state.leader)
        (behind,) = (each for each in of_leader.followers if each.broker_id == stuck)
        assert (of_leader.leader_epoch, of_leader.log_end_offset, behind.log_end_offset) == (state.leader_epoch, 2, 1)
        assert behind.behind_ms >= behind.fetched_ms > 4000
        silent = await explain(next(number for number in IDS if number != boss))
        assert (silent.controller_epoch, silent.changes) == (-1, [])
        # The next controller knows why it elected a leader, and what the one before had told.
        await cluster.hosts[boss].link.close()
        await cluster.hosts[boss].stop()
        cluster.running.discard(boss)
        await cluster.until(lambda: cluster.boss() is not None)
        await cluster.until_in_sync("words", rest - {boss})
        after = cluster.boss()
        assert after is not None
        told = await explain(after)
        assert told.controller_epoch == 2
        assert told.known_since_ms == told.controller_since_ms > shrunk.at_ms
        assert [(change.what, change.cause) for change in told.changes[:2]] == [
            (created.what, created.cause),
            (shrunk.what, shrunk.cause),
        ]
        # What it changed for its own stop is told only if the request arrives before it has stopped.
        assert all("controlled shutdown" in change.cause for change in told.changes[2:])
        assert {change.controller_epoch for change in told.changes} == {1}

    play(tmp_path, scenario)


@pytest.mark.parametrize("version", range(4))
def test_leaders_ask_the_controller_in_all_versions(tmp_path: Path, version: int) -> None:
    """AlterPartition of each version names topics and members in its own way, and has its own errors."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.create("words")
        await cluster.until_in_sync("words", {1, 2, 3})
        boss = cluster.boss()
        state = cluster.partition("words")
        assert boss is not None
        assert state is not None
        leader = cluster.hosts[state.leader].server
        topic_id = leader.store.state.topics["words"].topic_id

        async def ask(
            isr: tuple[int, ...],
            *,
            to: int = boss,
            epoch: int | None = None,
            unknown: bool = False,
            of_members: int = -1,
        ) -> Any:
            data = AlterPartitionRequest.TopicData(
                topic_name=("other" if unknown else "words") if version < 2 else "",
                topic_id=(uuid.UUID(int=9) if unknown else topic_id) if version >= 2 else uuid.UUID(int=0),
                partitions=[
                    AlterPartitionRequest.TopicData.PartitionData(
                        leader_epoch=state.leader_epoch,
                        partition_epoch=state.partition_epoch,
                        new_isr=list(isr) if version < 3 else [],
                        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=of_members) for each in isr]
                        if version >= 3
                        else [],
                    )
                ],
            )
            request = AlterPartitionRequest(
                broker_id=state.leader,
                broker_epoch=leader.registration.epoch if epoch is None else epoch,
                topics=[data],
            )
            return await cluster.hosts[to].ask(request, version)

        other = next(number for number in IDS if number != boss)
        assert (await ask((1, 2, 3), to=other)).error_code == ErrorCode.NOT_CONTROLLER
        assert (await ask((1, 2, 3), epoch=1)).error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = (await ask((1, 2, 3), unknown=True)).topics[0].partitions[0].error_code
        assert unknown == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 2 else ErrorCode.UNKNOWN_TOPIC_ID)
        absent = (await ask((1, 9))).topics[0].partitions[0].error_code
        assert absent == (ErrorCode.OPERATION_NOT_ATTEMPTED if version < 2 else ErrorCode.INELIGIBLE_REPLICA)
        if version >= 3:
            refused = (await ask(state.isr[:2], of_members=1)).topics[0].partitions[0].error_code
            assert refused == ErrorCode.INELIGIBLE_REPLICA
        answer = (await ask(state.isr)).topics[0]
        assert (answer.topic_name, answer.topic_id) == (("words", uuid.UUID(int=0)) if version < 2 else ("", topic_id))
        granted = answer.partitions[0]
        assert (granted.error_code, granted.leader_id, tuple(granted.isr)) == (0, state.leader, state.isr)
        assert granted.partition_epoch == state.partition_epoch

    play(tmp_path, scenario)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(20), 2))
def test_no_acknowledged_record_is_lost_whatever_happens_to_sessions_and_brokers(tmp_path: Path, seed: int) -> None:
    """Brokers lose ZooKeeper for less or more than their sessions, and stop in order, the controller among them."""

    async def scenario(cluster: Cluster) -> None:
        chance = random.Random(seed)
        await cluster.create("words")
        await cluster.until_in_sync("words", {1, 2, 3})
        acknowledged: list[bytes] = []
        stopped: int | None = None
        for number in range(12):
            victim = chance.choice(IDS)
            host = cluster.hosts[victim]
            match chance.randrange(3):
                case 0 if victim in cluster.running:
                    host.session.disconnect()
                    cluster.loop.call_later(chance.uniform(0, 10), host.session.reconnect)
                case 1 if stopped is None:
                    stopped = victim
                    cluster.running.discard(victim)
                    await host.link.close()
                    host.session.reconnect()
                    await host.stop()
                case 2 if stopped is not None:
                    cluster.hosts[stopped].link = cluster.hosts[stopped].link_to(9092)
                    await cluster.hosts[stopped].start()
                    cluster.running.add(stopped)
                    stopped = None
            value = b"value-%04d" % number
            await asyncio.wait_for(cluster.produce("words", value), DEADLINE_S)
            acknowledged.append(value)
            await asyncio.sleep(chance.uniform(0, 3))
        for host in cluster.hosts.values():
            host.session.reconnect()
        if stopped is not None:
            cluster.hosts[stopped].link = cluster.hosts[stopped].link_to(9092)
            await cluster.hosts[stopped].start()
            cluster.running.add(stopped)
        await cluster.until_in_sync("words", {1, 2, 3})
        for number in IDS:
            files = sorted((tmp_path / str(number) / "words-0").glob("*.log"))
            data = b"".join(file.read_bytes() for file in files)
            assert [value for value in acknowledged if value not in data] == []

    play(tmp_path, scenario)

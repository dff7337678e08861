"""Configurations in ZooKeeper are in force on a member, whenever they are altered; simulated."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from broker.api.admin.configs import handle_describe_configs
from broker.config.stored_topic import UNREADABLE
from broker.controller.alterations import Alteration, Op
from broker.controller.configs import ResourceKind, Source
from broker.member.control.update import DELETED
from broker.metadata.model import ClusterState
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import configs, paths
from broker.modes.cluster import ClusterMode
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.member.simulated import TOPIC_ID, Cluster, with_cluster
from tests.support.in_process.asking import Client, request_of

HOUR_MS, MONTH_MS = 3_600_000, 30 * 24 * 3_600_000
OTHER_ID = uuid.UUID(int=78)


async def alter(cluster: Cluster, kind: str, name: str, config: Mapping[str, str]) -> None:
    """Write a configuration and its notice, as another broker or a tool does."""
    path = paths.config(kind, name)
    if cluster.ensemble.exists(path):
        await cluster.zookeeper.set(path, configs.encode(config))
    else:
        await cluster.zookeeper.create(path, configs.encode(config))
    notice = f'{{"version":2,"entity_path":"{kind}/{name}"}}'.encode()
    await cluster.zookeeper.create(paths.CONFIG_CHANGE_PREFIX, notice, is_sequential=True)


async def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic in ZooKeeper, as a controller does: no notice tells of its configuration."""
    below = [each for each in cluster.ensemble.paths() if f"{each}/".startswith(f"{paths.topic(topic)}/")]
    for path in sorted(below, reverse=True):
        await cluster.zookeeper.delete(path)
    if cluster.ensemble.exists(paths.config("topics", topic)):
        await cluster.zookeeper.delete(paths.config("topics", topic))


def store_of(cluster: Cluster, broker: int) -> ZooKeeperStore:
    mode = cluster.hosts[broker].server.mode
    assert isinstance(mode, ClusterMode)
    return mode.store


def alter_while_logs_are_loaded(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, kind: str, name: str, config: Mapping[str, str]
) -> None:
    """Alter a configuration once a member that starts has loaded its logs; wait until it has read that."""
    loaded = ClusterMode.loaded

    async def altered(mode: ClusterMode) -> ClusterState:
        monkeypatch.undo()
        await alter(cluster, kind, name, config)
        if kind == "topics":
            await cluster.until(lambda: mode.store.topic_config(name) == config, "it has read the topic's")
        else:
            await cluster.until(lambda: mode.store.state.broker_config.get("") == config, "it has read the brokers'")
        return await loaded(mode)

    monkeypatch.setattr(ClusterMode, "loaded", altered)


def test_a_topic_that_is_altered_while_logs_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"retention.ms": str(HOUR_MS)})
        await cluster.hosts[2].stop()
        alter_while_logs_are_loaded(monkeypatch, cluster, "topics", "t", {"retention.ms": str(MONTH_MS)})
        await cluster.hosts[2].start()
        log = cluster.hosts[2].server.logs.get("t", 0)
        assert log is not None
        assert log.config.retention_ms == MONTH_MS, "before the controller gives it a role"
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.tell_metadata(("t", 0))
        assert cluster.partition(2, "t").log.config.retention_ms == MONTH_MS

    with_cluster(tmp_path, work)


FOREIGN = {"cleanup.policy": "compact", "retention.ms": "-1", "confluent.tier.enable": "true"}


@pytest.mark.parametrize(
    "config",
    [FOREIGN, {**FOREIGN, "remote.storage.enable": "true"}, {**FOREIGN, "retention.ms": "never"}, b"not JSON"],
    ids=["unknown name", "refused value", "unreadable value", "damaged node"],
)
def test_a_topic_with_what_is_not_understood_does_not_have_the_defaults(
    tmp_path: Path, config: dict[str, str] | bytes
) -> None:
    async def work(cluster: Cluster) -> None:
        content = config if isinstance(config, dict) else {"retention.ms": "-1"}
        await cluster.create("t", (1, 2), content)
        if isinstance(config, bytes):
            await cluster.zookeeper.set(paths.config("topics", "t"), config)

        def keeps(broker: int) -> bool:
            log = cluster.hosts[broker].server.logs.get("t", 0)
            assert log is not None
            is_whole = log.config.compact and log.config.retention_ms == -1
            return log.config.is_held or is_whole

        assert isinstance(config, bytes) or keeps(1), "when it got the partition"
        await cluster.hosts[2].stop()
        await cluster.hosts[2].start()
        assert keeps(2), "before the controller gives it a role"
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.tell_metadata(("t", 0))
        assert keeps(2)

    with_cluster(tmp_path, work)


def test_acks_of_all_need_all_replicas_after_a_start_with_a_number_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"min.insync.replicas": "2"})
        await alter(cluster, "topics", "t", {"min.insync.replicas": "2 ,"})
        await cluster.until(lambda: "2 ," in str(store_of(cluster, 1).topic_config("t")), "the notice is read")
        leader = cluster.partition(1, "t")
        assert leader.min_insync == leader.effective_min_insync == 2
        await cluster.hosts[2].stop()
        caplog.clear()
        await cluster.hosts[2].start()
        await cluster.tell_roles(("t", 0), to=[2])
        await cluster.tell_metadata(("t", 0))
        assert cluster.partition(2, "t").effective_min_insync == 2
        assert "needs all replicas in the ISR" in caplog.text

    with_cluster(tmp_path, work)


def test_a_damaged_node_of_a_topic_is_set_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"cleanup.policy": "compact"})
        await cluster.zookeeper.set(paths.config("topics", "t"), b"not JSON")
        notice = b'{"version":2,"entity_path":"topics/t"}'
        await cluster.zookeeper.create(paths.CONFIG_CHANGE_PREFIX, notice, is_sequential=True)
        log = cluster.partition(1, "t").log
        await cluster.until(lambda: log.config.is_held, "it is read")
        assert "/config/topics/t" in caplog.text
        assert "no records of the topic are removed" in caplog.text
        configs_of = cluster.hosts[1].server.broker.configs
        for names in (None, ["retention.ms"]):
            resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=names)
            request = request_of(
                cluster.hosts[1].server.broker, DescribeConfigsRequest(resources=[resource]), 4, Client()
            )
            await handle_describe_configs(request)
            await cluster.until(lambda request=request: hasattr(request, "response"), "it is answered")  # type: ignore[misc]
            (result,) = request.response.results
            assert result.error_code == 0, "kafka-configs describes a topic before it alters it"
            (only,) = result.configs
            assert (only.name, only.config_source, only.read_only) == (UNREADABLE, Source.TOPIC, False)
            assert "/config/topics/t" in only.value
            assert "name cleanup.policy" in only.value

        async def set_anew(**values: str) -> Exception | None:
            changes = [Alteration(name.replace("_", "."), Op.SET, value) for name, value in values.items()]
            change = configs_of.alteration(ResourceKind.TOPIC, "t", changes)
            return (await configs_of.alter([change], validate_only=False))[0]

        for values, missing in (
            ({"max_message_bytes": "777"}, "cleanup.policy"),
            ({"cleanup_policy": "delete"}, "retention.ms, retention.bytes"),
            ({"cleanup_policy": "delete", "retention_ms": "-1"}, "retention.bytes"),
            ({"cleanup_policy": "compact", "retention_ms": "-1"}, "delete.retention.ms, min.compaction.lag.ms"),
            ({"cleanup_policy": "compact,delete", "retention_ms": "-1", "delete_retention_ms": "9"},
             "min.compaction.lag.ms, retention.bytes"),
        ):  # fmt: skip
            refused = str(await set_anew(**values))
            assert all(key in refused.partition("Missing: ")[2] for key in missing.split(", ")), refused
        assert "String must be one of" in str(await set_anew(cleanup_policy="x"))
        assert await set_anew(cleanup_policy="compact", delete_retention_ms="9", min_compaction_lag_ms="8") is None
        assert (log.config.cleanup_policy, log.config.is_held) == (("compact",), False)
        assert cluster.ensemble.read(paths.config("topics", "t")).data == configs.encode(
            {"cleanup.policy": "compact", "delete.retention.ms": "9", "min.compaction.lag.ms": "8"}
        )

    with_cluster(tmp_path, work)


def test_the_brokers_configuration_that_is_altered_while_logs_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(cluster: Cluster) -> None:
        await alter(cluster, "brokers", "<default>", {"log.retention.ms": str(HOUR_MS)})
        await cluster.create("t", (1, 2))
        await cluster.until(lambda: "" in store_of(cluster, 2).state.broker_config, "it is read")
        await cluster.hosts[2].stop()
        changed = {"log.retention.ms": str(MONTH_MS), "log.cleaner.backoff.ms": "3"}
        alter_while_logs_are_loaded(monkeypatch, cluster, "brokers", "<default>", changed)
        await cluster.hosts[2].start()
        server = cluster.hosts[2].server
        log = server.logs.get("t", 0)
        assert log is not None
        assert log.config.retention_ms == server.logs.default_config.retention_ms == MONTH_MS
        assert server.broker.config["log.cleaner.backoff.ms"] == 3
        await cluster.tell_roles(("t", 0), to=[2])
        assert cluster.partition(2, "t").log.config.retention_ms == MONTH_MS

    with_cluster(tmp_path, work)


def test_a_member_starts_with_dynamic_values_that_it_cannot_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(cluster: Cluster) -> None:
        await alter(cluster, "brokers", "<default>", {"message.max.bytes": "x", "log.retention.ms": str(HOUR_MS)})
        await cluster.until(lambda: "" in store_of(cluster, 2).state.broker_config, "it is read")
        await cluster.hosts[2].stop()
        caplog.clear()
        await cluster.hosts[2].start()
        assert cluster.hosts[2].server.logs.default_config.retention_ms == HOUR_MS
        assert "/config/brokers/<default> in ZooKeeper" in caplog.text

    with_cluster(tmp_path, work)


def test_a_topic_that_is_altered_before_its_log_has_a_role(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"retention.ms": str(HOUR_MS)})
        await cluster.hosts[2].stop()
        await cluster.hosts[2].start()
        await alter(cluster, "topics", "t", {"retention.ms": str(MONTH_MS)})
        store = store_of(cluster, 2)
        await cluster.until(lambda: store.topic_config("t") == {"retention.ms": str(MONTH_MS)}, "the notice is read")
        assert not store.state.topics, "the controller has told it of no topic"
        await cluster.tell_roles(("t", 0), to=[2])
        assert cluster.partition(2, "t").log.config.retention_ms == MONTH_MS

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("index", [0, 1])
def test_a_topic_that_is_created_and_altered_at_once(tmp_path: Path, index: int) -> None:
    """The notice comes before the controller has told of the topic, or of one of its partitions."""

    async def work(cluster: Cluster) -> None:
        leader = await cluster.create("t", (1, 2), tell_metadata=False)
        assert leader.min_insync == 1
        if index == 1:
            cluster.assigned["t", 1] = cluster.assigned["t", 0]
            await cluster.tell_metadata(("t", 0))
            await cluster.tell_roles(("t", 1), is_new=True)
        hosted = cluster.hosts[1].server.replicas.get("t", index)
        assert hosted is not None
        await alter(cluster, "topics", "t", {"min.insync.replicas": "2"})
        store = store_of(cluster, 1)
        await cluster.until(lambda: store.topic_config("t") != {}, "the notice is read")
        await cluster.tell_metadata(("t", index))
        await cluster.until(lambda: hosted.min_insync == 2, "the configuration is in force")

    with_cluster(tmp_path, work)


def test_a_configuration_that_was_never_read_does_not_pass_for_an_empty_one(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2))
        mode = cluster.hosts[1].server.mode
        assert (mode.topic_config("t"), mode.topic_config("never read")) == ({}, None)

    with_cluster(tmp_path, work)


@pytest.mark.parametrize("topic_id", [TOPIC_ID, OTHER_ID], ids=["told as new", "another id"])
def test_a_topic_that_is_made_again_has_nothing_of_the_former(tmp_path: Path, topic_id: uuid.UUID) -> None:
    """A broker that knew of the former topic was not told of its end."""

    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"retention.ms": "1000"})
        store = store_of(cluster, 3)
        await cluster.until(lambda: store.state.topics["t"].config == {"retention.ms": "1000"}, "it knows of the topic")
        await delete(cluster, "t")
        cluster.topic_id = topic_id
        await cluster.create("t", (3,), tell_metadata=False)
        default = cluster.hosts[3].server.replicas.topic_config({}).log
        assert cluster.partition(3, "t").log.config == default
        await cluster.tell_metadata(("t", 0))
        await cluster.until(lambda: store.state.topics["t"].config == {}, "the state has it, too")
        assert cluster.partition(3, "t").log.config == default

    with_cluster(tmp_path, work)


def test_a_notice_of_a_topic_that_is_gone_says_nothing_of_the_next(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create("t", (1, 2), {"retention.ms": "1000"})
        store, session = store_of(cluster, 3), cluster.hosts[3].session
        session.disconnect()
        await alter(cluster, "topics", "t", {"retention.ms": "2000"})
        await alter(cluster, "brokers", "2", {"log.retention.ms": "5"})
        await delete(cluster, "t")
        cluster.assigned["t", 0] = replace(cluster.assigned["t", 0], leader=DELETED)
        await cluster.tell_metadata(("t", 0), to=[3])
        assert "t" not in store.state.topics
        session.reconnect()
        await cluster.until(lambda: "2" in store.state.broker_config, "it has read the notices")
        await cluster.create("t", (3,), {"cleanup.policy": "compact"})
        assert cluster.partition(3, "t").log.config.compact
        await cluster.until(lambda: store.state.topics["t"].config == {"cleanup.policy": "compact"}, "in the state")
        assert cluster.partition(3, "t").log.config.compact

    with_cluster(tmp_path, work)

"""Test mirrors of topics of which one has a configuration that cannot be read."""

from __future__ import annotations

import json

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import UNREADABLE, ConfigEntry, ConfigResource
from kafkalog.client.types import TopicPartition
from kafkalog.mirror import rechecks
from kafkalog.mirror.claims.returning import UnclearTopicsError, returning_of, unclear_topics
from kafkalog.mirror.keeping.topics import give_up
from tests.kafkalog.mirror.conftest import IDENTITY, Clusters, StartMirror, read_all, settings_of
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.writing import make, write
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until


def describe(address: str, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource.topic(topic)
    with Admin({"bootstrap.servers": address}) as admin:
        return dict(admin.describe_configs([resource])[resource])


def set_node(cluster: MemberCluster, topic: str, content: bytes) -> None:
    """Write the node of a topic's configuration, and wait until the broker has read it."""
    cluster.nodes.set(f"/config/topics/{topic}", content)
    notice = json.dumps({"version": 2, "entity_path": f"topics/{topic}"}).encode()
    cluster.nodes.create("/config/changes/config_change_", notice, sequence=True)
    damaged = not content.startswith(b"{")
    wait_until(lambda: (UNREADABLE in describe(cluster.bootstrap, topic)) == damaged, "the broker has read it")


def node(**config: str) -> bytes:
    return json.dumps(
        {"version": 1, "config": {key.replace("_", "."): value for key, value in config.items()}}
    ).encode()


@pytest.mark.parametrize("more", [{}, KEEP], ids=["translate", "keep"])
def test_topics_of_the_source_do_not_wait_for_one_that_cannot_be_read(
    over_zookeeper: MemberCluster,
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    more: dict[str, str],
) -> None:
    source, damaged, good = over_zookeeper.bootstrap, f"damaged-{alias}", f"good-{alias}"
    for topic in (damaged, good):
        make(source, topic)
        write(source, topic, range(5))
    set_node(over_zookeeper, damaged, b"no JSON")
    mirror = start_mirror(f"{damaged},{good}", source=source, **more)
    for topic in (good, damaged):
        read_all(clusters.target, f"{alias}.{topic}", 5)
    found = describe(clusters.target, f"{alias}.{damaged}")
    assert [found[key].value for key in ("retention.ms", "retention.bytes", "cleanup.policy")] == ["-1", "-1", "delete"]
    told = f"the configuration of topic {damaged} is not copied"
    wait_until(lambda: told in caplog.text, "it is said")
    set_node(over_zookeeper, damaged, node(retention_bytes="7000000"))
    wait_until(
        lambda: describe(clusters.target, f"{alias}.{damaged}")["retention.bytes"].value == "7000000", "it is copied"
    )
    default = describe(clusters.target, f"{alias}.{good}")["retention.ms"].value
    assert describe(clusters.target, f"{alias}.{damaged}")["retention.ms"].value == default
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


def test_topics_that_keep_offsets_do_not_wait_for_one_that_the_target_cannot_read(
    over_zookeeper: MemberCluster,
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    target, damaged, good = over_zookeeper.bootstrap, f"damaged-{alias}", f"good-{alias}"
    for topic in (damaged, good):
        make(clusters.source, topic)
        write(clusters.source, topic, range(5))
    remote = f"{alias}.{damaged}"
    make(target, remote)
    set_node(over_zookeeper, remote, b"no JSON")
    mirror = start_mirror(f"{damaged},{good}", target=target, **KEEP)
    read_all(target, f"{alias}.{good}", 5)
    wait_until(lambda: f"topic {remote} is left out" in caplog.text, "it is said")
    assert mirror.running
    set_node(over_zookeeper, remote, node())
    read_all(target, remote, 5)
    assert mirror.stop() is None


def test_a_topic_of_the_source_that_may_come_from_the_target_waits_until_it_can_be_read(
    over_zookeeper: MemberCluster,
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rechecks, "CHECK_S", 0.2)
    source, damaged, good = over_zookeeper.bootstrap, f"damaged-{alias}", f"good-{alias}"
    for topic in (damaged, good):
        make(source, topic)
        write(source, topic, range(5))
    set_node(over_zookeeper, damaged, b"no JSON")
    back = settings_of(Clusters(source, clusters.target), alias, damaged, reverse=True, **IDENTITY, **KEEP)
    with Admin(back.target_client) as admin:
        assert give_up(back, admin) == []
        # A broker may read the configuration when the topic is assigned, and not when it is looked at again.
        forth = settings_of(Clusters(source, clusters.target), alias, damaged, reverse=False, **IDENTITY)
        assert unclear_topics(forth, admin, {damaged, good}) == {damaged}
        with pytest.raises(UnclearTopicsError, match=damaged):
            returning_of(forth, admin, {damaged, good})
    assert f"topic {damaged} is not released, because its configuration in the target cannot be read" in caplog.text
    mirror = start_mirror(f"{damaged},{good}", source=source, **IDENTITY)
    read_all(clusters.target, good, 5)
    told = f"topic {damaged} is left out, because its configuration in the source cannot be read"
    wait_until(lambda: told in caplog.text, "it is said")
    assert set(mirror.positions) == {TopicPartition(good, 0)}
    set_node(over_zookeeper, damaged, node())
    read_all(clusters.target, damaged, 5)
    assert mirror.stop() is None

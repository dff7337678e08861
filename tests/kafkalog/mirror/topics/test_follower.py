"""Test when the configurations of topics follow."""

from __future__ import annotations

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.configs import (
    UNREADABLE,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
)
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import TopicFollower, changed, config_changes, set_in_topic
from kafkalog.mirror.topics.selection import NameFilter
from kafkalog.protocol.errors import InvalidConfigError
from tests.kafkalog.mirror.conftest import Clusters


def test_a_topic_that_could_not_be_copied_is_copied_with_the_next_look(clusters: Clusters, alias: str) -> None:
    clients = clusters.client("source"), clusters.client("target")
    settings, _ = MirrorSettings.of({}, alias, "target", clients)
    name, remote = f"words-{alias}", f"{alias}.words-{alias}"
    with Admin(clients[0]) as source, Admin(clients[1]) as target:
        source.create_topics([NewTopic(name, configs={"retention.ms": "1234"})])
        follower = TopicFollower(settings, source, target)
        # It is not in the target yet.
        follower.follow_configs([name])
        target.create_topics([NewTopic(remote)])
        follower.follow_configs([name])
        described = target.describe_configs([ConfigResource.topic(remote)])[ConfigResource.topic(remote)]
        assert described["retention.ms"].value == "1234"


def test_nothing_is_copied_where_the_configuration_of_a_topic_cannot_be_read() -> None:
    def entry(name: str, value: str) -> dict[str, ConfigEntry]:
        return {name: ConfigEntry(name, value, ConfigSource.TOPIC, read_only=False, sensitive=False)}

    damaged, whole, wanted = entry(UNREADABLE, "no JSON"), entry("retention.ms", "7"), NameFilter.of(".*", "", "x")
    for source, target in ((damaged, whole), (whole, damaged)):
        with pytest.raises(InvalidConfigError, match="no JSON"):
            config_changes(source, target, wanted)
    with pytest.raises(InvalidConfigError, match="no JSON"):
        set_in_topic(damaged, wanted)


def test_the_format_of_messages_belongs_to_the_target() -> None:
    def entry(name: str, value: str) -> ConfigEntry:
        return ConfigEntry(name, value, ConfigSource.TOPIC, read_only=False, sensitive=False)

    source = {each.name: each for each in (entry("message.format.version", "0.9.0"), entry("retention.ms", "7"))}
    assert set_in_topic(source, NameFilter.of(".*", "", "x")) == {"retention.ms": "7"}


def test_all_configurations_of_a_topic_after_a_change() -> None:
    present = {
        name: ConfigEntry(name, value, source, False, False)
        for name, value, source in (
            ("retention.ms", "5", ConfigSource.TOPIC),
            ("cleanup.policy", "compact", ConfigSource.TOPIC),
            ("max.message.bytes", "9", ConfigSource.TOPIC),
            ("segment.bytes", "7", ConfigSource.DEFAULT),
        )
    }
    changes = [ConfigChange("retention.ms", "6"), ConfigChange("cleanup.policy", operation=ConfigOperation.DELETE)]
    assert changed(present, changes) == {"retention.ms": "6", "max.message.bytes": "9"}

"""Test that a stored configuration of a topic is in force as far as it can be read."""

from __future__ import annotations

import pytest

from broker.config.server import BrokerConfig
from broker.config.stored_topic import (
    ALL_REPLICAS,
    MIN_INSYNC,
    REMOVAL_KEYS,
    UNREADABLE,
    StoredTopicConfig,
    read_topic_config,
)
from broker.config.topic import TOPIC_CONFIG


def test_names_that_are_not_known_change_nothing_else() -> None:
    stored = read_topic_config({"confluent.tier.enable": "true", "cleanup.policy": "compact", "retention.ms": "-1"})
    assert stored.values == {"cleanup.policy": ("compact",), "retention.ms": -1}
    assert (stored.unknown, stored.faults, stored.is_held) == (("confluent.tier.enable",), {}, False)
    config = BrokerConfig().stored_log_config(stored)
    assert (config.cleanup_policy, config.retention_ms, config.is_held) == (("compact",), -1, False)


def test_a_value_that_is_refused_changes_nothing_else() -> None:
    stored = read_topic_config({"remote.storage.enable": "true", "cleanup.policy": "compact", "retention.ms": "-1"})
    assert stored.values == {"cleanup.policy": ("compact",), "retention.ms": -1}
    assert "remote.storage.enable=true" in stored.faults["remote.storage.enable"]
    assert not stored.is_held


@pytest.mark.parametrize("name", sorted(REMOVAL_KEYS))
def test_nothing_is_removed_where_it_is_not_known_what(name: str) -> None:
    assert name in TOPIC_CONFIG
    stored = read_topic_config({name: "never", "max.message.bytes": "7"})
    assert stored.values == {"max.message.bytes": 7}
    assert "never" in stored.faults[name]
    assert BrokerConfig().stored_log_config(stored).is_held


def test_nothing_is_removed_where_nothing_can_be_read() -> None:
    assert read_topic_config({UNREADABLE: "it is not JSON"}).is_held


def test_what_cannot_be_read_any_more_leaves_the_last_value_in_force() -> None:
    last = read_topic_config({"min.insync.replicas": "2", "segment.bytes": "99", "cleanup.policy": "compact"})
    faulty = {"min.insync.replicas": "2 ,", "cleanup.policy": "compact,", "max.message.bytes": "x", "retention.ms": "7"}
    stored = read_topic_config(faulty, last)
    assert stored.values == {"min.insync.replicas": 2, "cleanup.policy": ("compact",), "retention.ms": 7}
    assert stored.is_held
    assert read_topic_config(faulty, stored).values == stored.values, "as often as it is read"
    damaged = read_topic_config({UNREADABLE: "it is not JSON"}, last)
    assert damaged.values == last.values
    assert damaged.is_held
    assert read_topic_config({}, damaged).values == {}


@pytest.mark.parametrize("texts", [{MIN_INSYNC: "2 ,"}, {UNREADABLE: "it is not JSON"}])
def test_all_replicas_have_to_be_in_sync_while_their_number_is_not_known(texts: dict[str, str]) -> None:
    stored = read_topic_config(texts)
    assert stored.values == {MIN_INSYNC: ALL_REPLICAS}
    assert read_topic_config(texts, stored).values == {MIN_INSYNC: ALL_REPLICAS}
    assert read_topic_config({MIN_INSYNC: "2"}, stored).values == {MIN_INSYNC: 2}


@pytest.mark.parametrize("texts", [{"cleanup.policy": "compact,"}, {UNREADABLE: "it is not JSON"}])
def test_records_need_keys_while_it_is_not_known_whether_they_are_compacted(texts: dict[str, str]) -> None:
    def needs_keys(last: StoredTopicConfig | None) -> bool:
        return BrokerConfig().stored_log_config(read_topic_config(texts, last)).requires_keys

    assert needs_keys(None)
    assert needs_keys(read_topic_config(texts))
    assert needs_keys(read_topic_config({"cleanup.policy": "compact"}))
    assert not needs_keys(read_topic_config({"cleanup.policy": "delete"})), "that stays in force"
    assert not needs_keys(read_topic_config({})), "the default stays in force"
    assert not BrokerConfig().stored_log_config(read_topic_config({"retention.ms": "never"})).requires_keys

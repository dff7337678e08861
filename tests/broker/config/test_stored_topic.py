"""Test that a stored configuration of a topic is in force as far as it can be read."""

from __future__ import annotations

import pytest

from broker.config.server import BrokerConfig
from broker.config.stored_topic import REMOVAL_KEYS, UNREADABLE, read_topic_config
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

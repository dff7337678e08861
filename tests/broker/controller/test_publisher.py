"""Test that configurations and quotas that another broker commits take effect here, and are described."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from broker.config.stored_topic import ALL_REPLICAS
from broker.controller.alterations import Alteration, Op
from broker.controller.configs import ResourceKind, Source
from broker.controller.publisher import TOPICS_A_TURN
from broker.controller.quotas import QuotaAlteration
from broker.metadata.operations import (
    SetClientQuota,
    SetConfig,
)
from broker.quota.entities import QuotaEntity
from tests.broker.controller.two_brokers import BROKER, TOPIC, Two, run


def test_a_topics_configuration_is_in_force(tmp_path: Path) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        await two.foreign(SetConfig(TOPIC, "t", {"retention.ms": "7", "min.insync.replicas": "3"}))
        assert two.log("t").config.retention_ms == 7
        assert two.broker.replicas.require("t", 0).min_insync == 3
        described = {each.key.name: each.value for each in two.broker.configs.describe_topic("t")}
        assert (described["retention.ms"], described["min.insync.replicas"]) == ("7", "3")

    run(tmp_path, work)


def test_many_topics_are_in_force_once_they_are_settled(tmp_path: Path) -> None:
    async def work(two: Two) -> None:
        names = [f"t{number}" for number in range(2 * TOPICS_A_TURN + 1)]
        await two.host(*names)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await two.foreign(*(SetConfig(TOPIC, name, {"retention.ms": "7"}) for name in names))
        # The last topic is altered again before its turn: only the newest configuration counts.
        await two.foreign(SetConfig(TOPIC, names[-1], {"retention.ms": "8"}))
        before = turns
        await two.broker.publisher.settled()
        counting.cancel()
        assert turns > before, "others had their turn"
        assert [two.log(name).config.retention_ms for name in names] == [7] * (len(names) - 1) + [8]

    run(tmp_path, work)


@pytest.mark.parametrize("name", ["", "0"])
def test_a_brokers_configuration_is_in_force(tmp_path: Path, name: str) -> None:
    async def work(two: Two) -> None:
        await two.host("t", "own")
        await two.foreign(SetConfig(TOPIC, "own", {"retention.ms": "7"}))
        await two.foreign(SetConfig(BROKER, name, {"log.retention.ms": "9", "log.cleaner.backoff.ms": "3"}))
        assert two.broker.config["log.cleaner.backoff.ms"] == 3
        assert (two.log("t").config.retention_ms, two.log("own").config.retention_ms) == (9, 7)
        described = {each.key.name: each.value for each in two.broker.configs.describe_broker("0")}
        assert described["log.cleaner.backoff.ms"] == "3"
        await two.foreign(SetConfig(BROKER, "1", {"log.cleaner.backoff.ms": "5"}))
        assert two.broker.config["log.cleaner.backoff.ms"] == 3, "that is for another broker"

    run(tmp_path, work)


def test_what_of_a_brokers_configuration_is_not_understood_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t", "own")
        await two.foreign(
            SetConfig(TOPIC, "own", {"retention.ms": "7"}),
            SetConfig(BROKER, "", {"log.roll.ms": "8", "message.max.bytes": "800"}),
            SetConfig(BROKER, "0", {"log.roll.ms": "often", "log.flush.interval.ms": "9", "background.threads": "3"}),
        )
        config = two.log("t").config
        assert (config.segment_ms, config.flush_ms, config.max_message_bytes) == (8, 9, 800)
        assert two.broker.config["background.threads"] == 10, "it cannot be changed while the broker runs"
        described = {each.key.name: each for each in two.broker.configs.describe_broker("0")}
        assert (described["log.roll.ms"].value, described["background.threads"].value) == ("8", "10")
        assert not config.is_held
        told = [(each.levelname, each.getMessage()) for each in caplog.records]
        assert [level for level, _ in told] == ["ERROR", "WARNING"]
        for part in ("log.roll.ms", "of broker 0", "often", "kafka-configs --alter", "--entity-name 0"):
            assert part in told[0][1]
        assert "background.threads" in told[1][1]
        await two.foreign(SetConfig(BROKER, "", {"log.roll.ms": "8", "message.max.bytes": "900"}))
        assert two.log("t").config.max_message_bytes == 900
        assert len(caplog.records) == 2, "each is told once"

    with caplog.at_level(logging.WARNING):
        run(tmp_path, work)


def test_topics_that_depend_on_what_of_a_broker_is_not_understood_keep_their_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t", "own", "compacted", "both")
        await two.foreign(SetConfig(TOPIC, "own", {"retention.ms": "7"}))
        await two.foreign(SetConfig(TOPIC, "compacted", {"cleanup.policy": "compact"}))
        await two.foreign(SetConfig(TOPIC, "both", {"cleanup.policy": "compact,delete"}))

        def held() -> set[str]:
            return {name for name in ("t", "own", "compacted", "both") if two.log(name).config.is_held}

        await two.foreign(SetConfig(BROKER, "", {"log.retention.ms": "never"}))
        assert held() == {"t", "both"}
        assert (
            "no records are removed, by retention or by compaction, of topics whose cleanup.policy has delete and that "
            "do not set retention.ms"
        ) in caplog.text
        await two.foreign(SetConfig(BROKER, "0", {"log.retention.ms": "9"}))
        assert held() == set()
        assert two.log("t").config.retention_ms == 9
        caplog.clear()
        await two.foreign(SetConfig(BROKER, "", {"log.retention.ms": "often", "log.flush.interval.ms": "x"}))
        assert held() == set()
        assert "often" in caplog.text
        assert "no records are removed" not in caplog.text, "this broker has a value of its own"
        await two.foreign(SetConfig(BROKER, "0", {}))
        assert held() == {"t", "both"}
        assert "no records are removed" in caplog.text, "not any more"
        await two.foreign(SetConfig(BROKER, "", {"log.cleaner.min.compaction.lag.ms": "x"}))
        assert held() == {"compacted", "both"}
        await two.foreign(SetConfig(BROKER, "", {"log.cleanup.policy": "x"}))
        assert held() == {"t", "own"}
        assert "of topics that do not set cleanup.policy" in caplog.text

    run(tmp_path, work)


UNREAD = {"log.cleanup.policy": "compact,", "min.insync.replicas": "2 ,", "message.max.bytes": "x"}


@pytest.mark.parametrize("name", ["", "0"])
def test_what_of_the_defaults_of_topics_cannot_be_read_any_more_stays_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async def work(two: Two) -> None:
        await two.host("t", "own")
        await two.foreign(SetConfig(TOPIC, "own", {"cleanup.policy": "delete", "min.insync.replicas": "1"}))
        values = {"log.cleanup.policy": "compact", "min.insync.replicas": "2", "message.max.bytes": "777"}
        await two.foreign(SetConfig(BROKER, name, values))
        partition, own = two.broker.replicas.require("t", 0), two.broker.replicas.require("own", 0)
        for config in (UNREAD, {**UNREAD, "log.flush.interval.ms": "9"}):
            await two.foreign(SetConfig(BROKER, name, config))
            assert (partition.min_insync, partition.log.config.compact) == (2, True)
            assert (partition.log.config.max_message_bytes, partition.log.config.is_held) == (777, True)
            assert (own.min_insync, own.log.config.compact, own.log.config.is_held) == (1, False, False)
        for key, value in values.items():
            assert f"what was read last is in force: {key}={value}" in caplog.text
        described = {each.key.name: each for each in two.broker.configs.describe_topic("t")}
        source = Source.DYNAMIC_BROKER if name else Source.DYNAMIC_DEFAULT_BROKER
        assert (described["cleanup.policy"].value, described["cleanup.policy"].source) == ("compact", source)
        assert {each.key.name: each.value for each in two.broker.configs.describe_broker("0")}.items() >= values.items()
        await two.foreign(SetConfig(BROKER, name, {}))
        assert (partition.min_insync, partition.log.config.compact) == (1, False)

    run(tmp_path, work)


def test_defaults_of_topics_that_were_never_read_are_the_strictest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t", "own")
        await two.foreign(SetConfig(TOPIC, "own", {"cleanup.policy": "delete", "min.insync.replicas": "1"}))
        await two.foreign(SetConfig(BROKER, "", UNREAD))
        partition, own = two.broker.replicas.require("t", 0), two.broker.replicas.require("own", 0)
        assert (partition.min_insync, partition.log.config.requires_keys) == (ALL_REPLICAS, True)
        assert (own.min_insync, own.log.config.requires_keys) == (1, False)
        assert "topics that do not set min.insync.replicas needs all replicas in the ISR" in caplog.text
        assert "records of clients need a key in topics that do not set cleanup.policy," in caplog.text
        await two.foreign(SetConfig(BROKER, "0", {"log.cleanup.policy": "delete", "min.insync.replicas": "3"}))
        assert (partition.min_insync, partition.log.config.requires_keys) == (3, False)

    run(tmp_path, work)


def test_a_topics_configuration_is_in_force_as_far_as_it_is_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        config = {"confluent.key": "secret", "remote.storage.enable": "true", "cleanup.policy": "compact"}
        await two.foreign(SetConfig(TOPIC, "t", config))
        assert two.log("t").config.compact
        await two.foreign(SetConfig(TOPIC, "t", {**config, "max.message.bytes": "777"}))
        assert two.log("t").config.max_message_bytes == 777, "later changes are in force, too"
        await two.foreign(SetConfig(BROKER, "", {"log.retention.ms": "9"}))
        told = [
            (each.levelname, each.getMessage()) for each in caplog.records if "topic t" in each.getMessage().lower()
        ]
        assert [level for level, _ in told] == ["WARNING", "ERROR"], "each is told once"
        assert "confluent.key" in told[0][1]
        assert "secret" not in told[0][1]
        assert "remote.storage.enable=true" in told[1][1]
        assert "kafka-configs --alter" in told[1][1]
        described = {each.key.name: each for each in two.broker.configs.describe_topic("t")}
        assert described["cleanup.policy"].value == "compact"
        assert (described["remote.storage.enable"].value, described["confluent.key"].value) == ("true", None)
        assert described["confluent.key"].source is Source.TOPIC
        await two.foreign(SetConfig(TOPIC, "t", {"cleanup.policy": "compact"}))
        assert "in force as a whole again" in caplog.text

    with caplog.at_level(logging.INFO):
        run(tmp_path, work)


def test_what_of_a_topic_cannot_be_read_any_more_stays_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        config = {"min.insync.replicas": "2", "cleanup.policy": "compact", "max.message.bytes": "777"}
        await two.foreign(SetConfig(TOPIC, "t", config))
        faulty = {"min.insync.replicas": "2 ,", "cleanup.policy": "compact,", "max.message.bytes": "x"}
        await two.foreign(SetConfig(TOPIC, "t", faulty))
        partition = two.broker.replicas.require("t", 0)
        for _ in range(2):
            assert (partition.min_insync, partition.log.config.compact) == (2, True)
            assert partition.log.config.max_message_bytes == 777
            await two.foreign(SetConfig(BROKER, "", {"message.max.bytes": "9"}))
        assert "what was read last is in force: min.insync.replicas=2" in caplog.text
        described = {each.key.name: each.value for each in two.broker.configs.describe_topic("t")}
        assert described["min.insync.replicas"] == "2 ,", "it is shown as it has to be corrected"
        await two.foreign(SetConfig(TOPIC, "t", {}))
        assert (partition.min_insync, partition.log.config.max_message_bytes) == (1, 9)

    run(tmp_path, work)


def test_nothing_is_removed_of_a_topic_while_its_retention_is_not_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        await two.foreign(SetConfig(TOPIC, "t", {"retention.ms": "never", "max.message.bytes": "777"}))
        assert two.log("t").config.is_held
        assert two.log("t").config.max_message_bytes == 777
        assert "no records of the topic are removed" in caplog.text
        described = {each.key.name: each.value for each in two.broker.configs.describe_topic("t")}
        assert described["retention.ms"] == "never"
        change = two.broker.configs.alteration(ResourceKind.TOPIC, "t", [Alteration("retention.ms", Op.SET, "7")])
        assert await two.broker.configs.alter([change], validate_only=False) == [None]
        assert (two.log("t").config.retention_ms, two.log("t").config.is_held) == (7, False)

    run(tmp_path, work)


def test_quotas_are_in_force_and_described(tmp_path: Path) -> None:
    async def work(two: Two) -> None:
        user = QuotaEntity.of([("user", "alice")])
        await two.foreign(SetClientQuota(user, {"consumer_byte_rate": 10.0}))
        assert two.broker.quotas.fetch.limit("alice", "").value == 10.0
        described = two.broker.quota_controller.describe([("user", 0, "alice")], strict=True)
        assert described == [(user, {"consumer_byte_rate": 10.0})]
        await two.foreign(SetClientQuota(user, {}))
        assert not two.broker.quotas.fetch.limited

    run(tmp_path, work)


def test_the_quota_of_a_host_is_in_force_once_its_address_is_known(tmp_path: Path) -> None:
    async def work(two: Two) -> None:
        host = QuotaEntity.of([("ip", "localhost")])
        await two.foreign(SetClientQuota(host, {"connection_creation_rate": 1e-9}))
        rates = two.broker.connection_rates
        while not any(rates.refused_ms(address, 0) for address in ("127.0.0.1", "::1")):
            await asyncio.sleep(0.001)

    run(tmp_path, work)


def test_what_this_broker_commits_is_in_force_when_it_is_answered(tmp_path: Path) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        configs, quotas = two.broker.configs, two.broker.quota_controller
        change = configs.alteration(ResourceKind.TOPIC, "t", [Alteration("retention.ms", Op.SET, "7")])
        assert await configs.alter([change], validate_only=False) == [None]
        assert two.log("t").config.retention_ms == 7
        named = QuotaAlteration([("ip", "localhost")], [("connection_creation_rate", 1.0)])
        assert await quotas.alter([named], validate_only=False) == [None]
        rates = two.broker.connection_rates
        assert any(rates.refused_ms(address, 0) for _ in range(1000) for address in ("127.0.0.1", "::1"))

    run(tmp_path, work)

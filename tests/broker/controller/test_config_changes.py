"""Test the checks of requests that alter configurations, and what they store."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.alterations import Alteration, Op
from broker.controller.configs import ResourceChange, ResourceKind
from broker.metadata.operations import SetConfig
from kafkalog.protocol.errors import InvalidRequestError
from tests.broker.controller.two_brokers import BROKER, TOPIC, Two, run


def test_stored_keys_that_cannot_be_changed_here_block_no_other_change(tmp_path: Path) -> None:
    """A broker of Apache Kafka, or a tool, has stored them."""
    stored = {"background.threads": "3", "listeners": "PLAINTEXT://:1", "log.roll.ms": "often"}

    async def work(two: Two) -> None:
        configs = two.broker.configs

        async def alter(change: ResourceChange) -> Exception | None:
            return (await configs.alter([change], validate_only=False))[0]

        def kept() -> dict[str, str]:
            return dict(two.ours.state.broker_config["0"])

        await two.foreign(SetConfig(BROKER, "0", stored))
        setting = Alteration("log.retention.ms", Op.SET, "9")
        assert await alter(configs.alteration(ResourceKind.BROKER, "0", [setting])) is None
        assert kept() == {**stored, "log.retention.ms": "9"}
        assert two.broker.config["log.retention.ms"] == 9
        whole = [*stored.items(), ("log.retention.ms", "8")]
        assert await alter(configs.replacement(ResourceKind.BROKER, "0", whole)) is None
        assert kept() == {**stored, "log.retention.ms": "8"}
        for name, value, error in (
            ("background.threads", "4", InvalidRequestError),
            ("log.roll.ms", "never", InvalidRequestError),
        ):
            setting = Alteration(name, Op.SET, value)
            assert isinstance(await alter(configs.alteration(ResourceKind.BROKER, "0", [setting])), error)
        removed = Alteration("background.threads", Op.DELETE, None)
        assert await alter(configs.alteration(ResourceKind.BROKER, "0", [removed])) is None
        assert "background.threads" not in kept()

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([("retention.ms", None)], "Null value not supported for : retention.ms"),
        ([("retention.ms", "1"), ("retention.ms", "2")], "duplicate config keys"),
        ([("retention.ms", "1"), ("retention.ms", None)], "duplicate config keys"),
    ],
)
def test_a_replacement_names_each_key_once_with_a_value(
    tmp_path: Path, values: list[tuple[str, str | None]], message: str
) -> None:
    async def work(two: Two) -> None:
        with pytest.raises(InvalidRequestError, match=message):
            two.broker.configs.replacement(ResourceKind.TOPIC, "t", values)

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("present", "op", "value", "after"),
    [
        ("compact, delete", Op.SUBTRACT, "delete", "compact"),
        ("compact, delete", Op.SUBTRACT, " compact , delete", ""),
        ("compact, delete", Op.APPEND, "delete", "compact,delete"),
        (" compact", Op.APPEND, "delete,delete", "compact,delete"),
        ("compact", Op.APPEND, "", "compact"),
    ],
)
def test_spaces_in_lists_mean_nothing(tmp_path: Path, present: str, op: Op, value: str, after: str) -> None:
    async def work(two: Two) -> None:
        await two.host("t")
        await two.foreign(SetConfig(TOPIC, "t", {"cleanup.policy": present}))
        change = two.broker.configs.alteration(ResourceKind.TOPIC, "t", [Alteration("cleanup.policy", op, value)])
        assert await two.broker.configs.alter([change], validate_only=False) == [None]
        assert two.ours.state.topics["t"].config == {"cleanup.policy": after}

    run(tmp_path, work)

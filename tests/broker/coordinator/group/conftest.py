"""Fixtures: handlers of requests about groups that end their turn early."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.api import large
from broker.coordinator.group import service
from broker.coordinator.group.classic import classic_groups
from tests.broker.coordinator.group.serving import AT_ONCE, Serving
from tests.broker.coordinator.support import Stored


@pytest.fixture
def serving(stored: Callable[..., Stored], monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Handlers end their turn after each entry, and the coordinator after a few."""
    monkeypatch.setattr(large, "TURN_SECONDS", -1)
    for module, name in (
        (service, "OFFSETS_AT_ONCE"),
        (service, "TOMBSTONES_AT_ONCE"),
        (classic_groups, "LEAVING_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, AT_ONCE)
    return Serving(stored(offsets_topic_num_partitions="2", group_initial_rebalance_delay_ms="0"))

"""The id of a broker: its configuration and its log directories may both name one."""

from __future__ import annotations

import pytest

from broker.config.definition import ConfigError
from broker.modes.broker_id import NO_ID, known_broker_id


@pytest.mark.parametrize(
    ("configured", "stored", "found"), [(NO_ID, None, None), (NO_ID, 3, 3), (3, None, 3), (3, 3, 3), (0, 0, 0)]
)
def test_either_may_name_it(configured: int, stored: int | None, found: int | None) -> None:
    assert known_broker_id(configured, stored) == found


@pytest.mark.parametrize(("configured", "stored"), [(3, 4), (0, 4), (4, 0)])
def test_both_must_name_the_same(configured: int, stored: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"Configured broker.id {configured} doesn't match stored broker.id {stored}"
    ):
        known_broker_id(configured, stored)

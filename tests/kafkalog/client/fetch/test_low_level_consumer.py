"""Test that the consumer that fetches by offset and size checks its arguments before it sends a request."""

from __future__ import annotations

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.low_level_consumer import LowLevelConsumer


@pytest.mark.parametrize("size", [0, -1])
def test_a_fetch_size_that_nothing_fits_in(size: int) -> None:
    """It grows by doubling, which would never end."""
    with (
        LowLevelConsumer(ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"}), max_version=2) as consumer,
        pytest.raises(ValueError, match=f"fetch_size={size}: must be from 1"),
    ):
        consumer.fetch("t", 0, 0, fetch_size=size)

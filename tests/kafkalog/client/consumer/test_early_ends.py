"""Test that a loop over a consumer that ends early gets the rest of its records the next time."""

from __future__ import annotations

import pytest

from tests.kafkalog.client.consumer.test_created_again import TP, Topic, offsets, reading

pytestmark = pytest.mark.timeout(300)


def test_records_before_one_that_cannot_be_deserialized_come_again() -> None:
    """The records before it, of the same poll, are those that the loop gets."""
    refused = {b"v3"}

    def deserialized(value: bytes) -> bytes:
        if value in refused:
            raise ValueError("not that one")
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        for record in consumer:
            assert (record.offset, consumer.position(TP)) == (0, 3)
            break
        assert consumer.position(TP) == 1
        refused.clear()
        assert offsets(consumer, 4) == [1, 2, 3, 4]

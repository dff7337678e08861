"""The judge finds each kind of fault, and none where there is none."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from tests.crash.cluster.verdict import beyond_retries, changed, faults

SENT = [b"a", b"b", b"c"]
WHOLE = {0: b"a", 1: b"b", 2: b"c"}
TOLD = {b"a": 0, b"b": 1, b"c": 2}


def test_a_log_with_all_that_was_acknowledged_is_right() -> None:
    assert faults(TOLD, SENT, WHOLE) == []
    # What nobody was told may be there or not.
    assert faults({b"a": 0}, SENT, {0: b"a", 1: b"b"}) == []
    assert faults({b"b": None}, SENT, WHOLE) == []
    assert changed({0: b"a"}, WHOLE) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({0: b"a", 2: b"c"}, "1 lost: b'b', acknowledged at 1"),
        ({**WHOLE, 3: b"b"}, "1 doubled: b'b' is at 1 and at 3"),
        ({0: b"a", 1: b"c", 2: b"b"}, "1 reordered: b'b' comes after b'c'"),
        ({**WHOLE, 3: b"x"}, "1 never sent: b'x'"),
        ({0: b"a", 1: b"b", 3: b"c"}, "1 moved: b'c' was acknowledged at 2 and is at 3"),
    ],
)
def test_each_fault_is_named(found: dict[int, bytes], told: str) -> None:
    assert told in faults(TOLD, SENT, found)


def test_a_record_without_an_offset_must_be_there_as_well() -> None:
    assert faults({b"b": None}, SENT, {0: b"a", 1: b"c"}) == ["1 lost: b'b', acknowledged at None"]


def test_a_record_that_was_read_and_is_gone_is_named() -> None:
    assert changed(WHOLE, {0: b"a", 1: b"x"}) == [
        "2 changed after they were read: 1: b'b' is now b'x'; 2: b'c' is now None"
    ]


def test_errors_of_a_consumer_that_no_retry_covers_are_faults() -> None:
    assert beyond_retries({}) == []
    assert beyond_retries({KafkaError._TRANSPORT: 3, KafkaError._ALL_BROKERS_DOWN: 1}) == []
    seen = {KafkaError.OFFSET_OUT_OF_RANGE: 2, KafkaError._TRANSPORT: 1, KafkaError._AUTO_OFFSET_RESET: 1}
    assert beyond_retries(seen) == [
        "the consumer saw 1 times _AUTO_OFFSET_RESET",
        "the consumer saw 2 times OFFSET_OUT_OF_RANGE",
    ]

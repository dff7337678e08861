"""Test what a consumer does about errors of fetches that are no sign of a moved leader."""

from __future__ import annotations

import logging

import pytest

from kafkalog.client.consumer import UnreadableBatchError
from kafkalog.protocol.errors import CorruptMessageError, ErrorCode
from tests.kafkalog.client.consumer.recreated import TP, Topic, offsets, reading
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def test_an_unknown_error_of_a_broker_is_logged_and_the_fetch_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """As in Java (`FetchCollector.handleInitializeErrors`)."""
    topic = Topic()
    topic.refusals, topic.refusal = 3, ErrorCode.UNKNOWN_SERVER_ERROR
    with caplog.at_level(logging.WARNING), reading(topic) as consumer:
        consumer.seek(TP, 0)
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]
    assert [each for each in caplog.messages if "partition t-0" in each]


def test_a_batch_that_the_broker_cannot_read_is_told() -> None:
    """The application would otherwise wait for it for ever."""
    topic = Topic()
    topic.refusals, topic.refusal = 1_000_000, ErrorCode.CORRUPT_MESSAGE
    with reading(topic) as consumer:
        consumer.seek(TP, 1)
        for _ in range(2):
            with pytest.raises(UnreadableBatchError, match="partition t-0 at offset 1") as failure:
                consumer.poll(DEADLINE_S)
            assert isinstance(failure.value.__cause__, CorruptMessageError)
            assert consumer.position(TP) == 1
        topic.refusals = 0
        consumer.seek(TP, 2)
        assert offsets(consumer, 3) == [2, 3, 4]


def test_records_before_a_batch_that_the_broker_cannot_read_come_first() -> None:
    topic = Topic()
    with reading(topic, max_poll_records=2) as consumer:
        state = consumer._subscription.state(TP)
        consumer.seek(TP, 0)
        assert offsets(consumer, 2) == [0, 1]
        assert state.completed_fetches
        topic.refusals, topic.refusal = 1_000_000, ErrorCode.CORRUPT_MESSAGE
        refused = len(topic.asked)
        wait_until(lambda: len(topic.asked) >= refused + 2, "the next batch was asked for")
        assert offsets(consumer, 3) == [2, 3, 4]
        with pytest.raises(UnreadableBatchError, match="partition t-0 at offset 5"):
            consumer.poll(DEADLINE_S)

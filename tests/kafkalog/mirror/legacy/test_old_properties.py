"""Test what becomes of the properties of an old producer."""

from __future__ import annotations

import logging

import pytest

from kafkalog.client.producer.config import ProducerConfig
from kafkalog.mirror.legacy.old_properties import old_config


def settings(**properties: str) -> ProducerConfig:
    dotted = {key.replace("_", "."): text for key, text in properties.items()}
    return old_config({"metadata.broker.list": "a:1", **dotted}).producer("a:1", compress=False)


def test_by_default_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    config = settings(producer_type="async")
    assert (config.acks, config.retries, config.linger) == (-1, 0x7FFFFFFF, 0.0)
    assert config.max_block == config.delivery_timeout == pytest.approx(0x7FFFFFFF / 1000)
    assert caplog.messages == []


def test_acknowledgements_and_retries_of_the_file_are_used() -> None:
    config = settings(request_required_acks="1", message_send_max_retries="7")
    assert (config.acks, config.retries) == (1, 7)


@pytest.mark.parametrize(
    ("properties", "linger"),
    [
        ({"queue_buffering_max_ms": "500"}, 0.5),
        ({"queue_time": "500"}, 0.5),
        ({"queue_buffering_max_ms": "500", "linger_ms": "20"}, 0.02),
        ({"queue_buffering_max_ms": "500", "producer_type": "sync"}, 0.0),
    ],
)
def test_the_time_in_the_queue_is_that_of_a_batch(properties: dict[str, str], linger: float) -> None:
    assert settings(**properties).linger == linger


def test_what_has_no_effect_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings(
            producer_type="sync",
            queue_enqueue_timeout_ms="0",
            queue_buffering_max_messages="1000",
            batch_num_messages="100",
            event_handler="x",
        )
    (line,) = caplog.messages
    assert line == (
        "without effect here: batch.num.messages (a batch is limited by its size in bytes); "
        "event.handler (records are sent by this producer); "
        "producer.type (records are sent in the background, and committed once they are delivered); "
        "queue.buffering.max.messages (buffer.memory limits the records that wait); "
        "queue.enqueue.timeout.ms (a record waits until there is room for it)"
    )

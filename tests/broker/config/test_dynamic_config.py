"""Test that dynamic broker configurations take effect at once, and after a restart."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.protocol.errors import ErrorCode
from tests.broker.config.support import alter_all_brokers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, end_offset, is_closed, produce


def test_a_dynamic_default_is_still_in_force_for_present_topics_after_a_restart(
    start_broker: Callable[..., KafkalogBroker],
) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        create_topic(sock, "own", 1, max_message_bytes="2000")
        alter_all_brokers(sock, "message.max.bytes", "300")
        assert produce(sock, "t", batch([b"x" * 500])).error_code == ErrorCode.MESSAGE_TOO_LARGE
    broker.stop()
    broker.start()
    with broker.connect() as sock:
        assert produce(sock, "t", batch([b"x" * 500])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce(sock, "own", batch([b"x" * 500])).error_code == ErrorCode.NONE


def test_a_limit_of_connections_applies_from_when_it_is_set(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        alter_all_brokers(sock, "max.connections", "1")
        with broker.connect() as second:
            assert is_closed(second)
        alter_all_brokers(sock, "max.connections", "2")
        with broker.connect() as second:
            assert end_offset(second, "t") == 0

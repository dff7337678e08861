"""Test that calls keep their time-out while the broker does not respond and another thread waits for it."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import ClientTimeoutError
from tests.kafkalog.client.consumer.conftest import GROUPS
from tests.kafkalog.client.consumer.support import DEADLINE_S, Kip848Live, Live, take, values
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_silent_broker_keeps_nobody_longer_than_is_said(protocol: str, tmp_path: Path) -> None:
    with KafkalogBroker(tmp_path / "log", GROUPS) as broker, ThreadPoolExecutor(1) as pool:
        own = (Live if protocol == "classic" else Kip848Live)(broker.bootstrap)
        topic, group = own.topic(), own.group()
        own.produce(topic, 0, values(5))
        patient = dict.fromkeys(("request_timeout_ms", "default_api_timeout_ms"), round(3000 * DEADLINE_S))
        if protocol == "classic":
            patient["session_timeout_ms"] = round(3000 * DEADLINE_S)
        consumer = Consumer(own.properties(group, **patient))
        consumer.subscribe([topic])
        take(consumer, 5)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            slots = consumer._cluster._slots.values()
            wait_until(lambda: any(slot.lock.locked() for slot in slots), "a heartbeat is under way")
            commit = pool.submit(consumer.commit, timeout=0.5)
            assert isinstance(commit.exception(DEADLINE_S), ClientTimeoutError)
            pool.submit(consumer.close, 1.0).result(DEADLINE_S)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

"""Test sessions that end while clients work (KIP-368), the time for a login, and crowds beyond the limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafkalog.client.producer import Producer as OurProducer
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.secured.sasl_broker import MECHANISMS, SaslBroker
from tests.support.wire import is_closed

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("processes")]

SESSION_MS = 1500
RECORDS = 5
PAUSE_S = SESSION_MS / 1000 * 0.75


@pytest.fixture(scope="module")
def short_sessions(processes: None, tmp_path_factory: pytest.TempPathFactory) -> SaslBroker:
    """Return the settings of a broker whose sessions end after a while."""
    return SaslBroker(tmp_path_factory.mktemp("sessions"), {"connections.max.reauth.ms": str(SESSION_MS)})


def test_clients_work_beyond_the_end_of_their_sessions(short_sessions: SaslBroker) -> None:
    with short_sessions as broker:
        broker.add_scram_users()
        foreign = [Producer(broker.properties(mechanism)) for mechanism in MECHANISMS]
        own = [OurProducer(broker.properties(mechanism)) for mechanism in MECHANISMS]
        failures: list[object] = []
        for _ in range(RECORDS):
            for each in foreign:
                each.produce("t", b"x", callback=lambda error, _: failures.append(error) if error else None)
                assert each.flush(60) == 0
            for ours in own:
                ours.send("t", b"x").result(60)
            # The sessions of all of them end meanwhile, more than once: what is tested is that time passes.
            time.sleep(PAUSE_S)
        assert failures == []
        for ours in own:
            ours.close()


def test_a_client_that_does_not_log_in_is_closed_and_crowds_make_room(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    settings = {"kafkalog.authentication.timeout.ms": "700", "kafkalog.max.unauthenticated.connections": "20"}
    with SaslBroker(tmp_path, settings) as broker:
        crowd = [broker.connect_sasl() for _ in range(25)]
        for sock in crowd[:5]:
            assert is_closed(sock)
        broker.wait_logged("kafkalog.max.unauthenticated.connections")
        with OurProducer(broker.properties("PLAIN")) as producer:
            producer.send("t", b"x").result(60)
        for sock in crowd[5:]:
            assert is_closed(sock)
            sock.close()
        broker.wait_logged("did not authenticate in time")

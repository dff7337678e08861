"""A broker that does not answer: calls about transactions end at their own deadline, not at ``request.timeout.ms``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.transactions_admin import TransactionsAdmin
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest
from kafkalog.protocol.messages.list_transactions import ListTransactionsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from spark_kafkalog.sink.once.ending import open_transactions
from tests.client import scripted
from tests.client.scripted import ScriptedBroker, metadata

LONG_S = 120.0
TP = TopicPartition("t", 0)


class Silent:
    """A cluster of one broker that answers nothing but metadata until ``released``."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.broker = ScriptedBroker(
            {
                MetadataRequest: lambda request: metadata({0: self.broker}, {(TP.topic, TP.partition): 0}),
                ListTransactionsRequest: self._wait,
                DescribeProducersRequest: self._wait,
                WriteTxnMarkersRequest: self._wait,
            }
        )

    def _wait(self, request: Any) -> None:
        self.released.wait(LONG_S)

    def config(self) -> ClientConfig:
        return ClientConfig.from_dict(
            {
                "bootstrap.servers": self.broker.address,
                "request.timeout.ms": round(LONG_S * 1000) * 2,
                "default.api.timeout.ms": 500,
            }
        )


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    made = Silent()
    for cls in made.broker.handlers:
        monkeypatch.setitem(scripted.REQUESTS, cls.api_key, cls)
    with made.broker:
        try:
            yield made
        finally:
            made.released.set()


@pytest.mark.timeout(LONG_S / 2)
@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.list_transactions(),
        lambda admin: admin.describe_producers([TP]),
        lambda admin: admin.abort_transaction(TP, 1, 0),
    ],
    ids=["list", "describe", "abort"],
)
def test_administration_ends(silent: Silent, call: Callable[[TransactionsAdmin], Any]) -> None:
    with TransactionsAdmin(silent.config()) as admin, pytest.raises(ClientTimeoutError):
        call(admin)


@pytest.mark.timeout(LONG_S / 2)
def test_the_sink_goes_on(silent: Silent) -> None:
    with Cluster(silent.config()) as cluster:
        assert open_transactions(cluster, "prefix", time.monotonic() + 0.5) == []

"""Test the producer id that the processes of a mirror share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.transactions.requests import ProducerIdentity, TransactionRequests
from kafkalog.mirror.keeping.shared_id import ASK_AGAIN_S, OtherProducerIdError, SharedProducerId
from kafkalog.records.batch import NO_PRODUCER_ID
from tests.kafkalog.mirror.conftest import Clusters


@pytest.fixture
def target(clusters: Clusters) -> Iterator[Cluster]:
    with Cluster(ClientConfig.from_dict(clusters.client("target"))) as cluster:
        yield cluster


def test_two_processes_have_the_same_one_and_it_is_used_once_a_day(target: Cluster, alias: str) -> None:
    first, second = SharedProducerId(target, alias), SharedProducerId(target, alias)
    first.check(0.0)
    assert first.value == NO_PRODUCER_ID, "nobody needs one yet"
    assert first.ask(0.0) == second.ask(10.0) != NO_PRODUCER_ID
    before = epoch_of(target, alias)
    first.check(ASK_AGAIN_S - 1)
    assert epoch_of(target, alias) == before + 1, "only the question itself has used it"
    first.check(ASK_AGAIN_S)
    assert epoch_of(target, alias) == before + 3


def epoch_of(target: Cluster, transactional_id: str) -> int:
    with TransactionRequests(target, transactional_id) as requests:
        return requests.init().producer_epoch


def test_another_id_ends_the_worker(target: Cluster, alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the coordinator has forgotten the transactional id."""
    shared = SharedProducerId(target, alias)
    shared.ask(0.0)
    monkeypatch.setattr(TransactionRequests, "init", lambda requests: ProducerIdentity(shared.value + 1, 0))
    with pytest.raises(OtherProducerIdError, match=alias):
        shared.check(ASK_AGAIN_S)

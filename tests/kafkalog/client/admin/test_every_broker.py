"""Test that lists of groups and transactions are complete, even if one of the brokers dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.admin.transactions import TransactionsAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kafkalog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import Response
from tests.support.scripted import Answer, ScriptedBroker, metadata


def groups(names: list[str]) -> Response:
    return ListGroupsResponse(groups=[ListedGroup(group_id=name, protocol_type="consumer") for name in names])


def transactions(names: list[str]) -> Response:
    rows = [TransactionState(transactional_id=name, producer_id=1, transaction_state="Empty") for name in names]
    return ListTransactionsResponse(transaction_states=rows)


def listed_groups(config: ClientConfig) -> Iterator[str]:
    with GroupAdmin(config) as admin:
        yield from (each.group for each in admin.list_groups())


def groups_of_each(config: ClientConfig) -> Iterator[str]:
    with GroupAdmin(config) as admin:
        for listed in admin.list_groups_each().values():
            assert not isinstance(listed, Exception)
            yield from (each.group for each in listed)


def listed_transactions(config: ClientConfig) -> Iterator[str]:
    with TransactionsAdmin(config) as admin:
        yield from (each.transactional_id for each in admin.list_transactions())


@pytest.mark.parametrize(
    ("request_class", "answer", "listed"),
    [
        (ListGroupsRequest, groups, listed_groups),
        (ListGroupsRequest, groups, groups_of_each),
        (ListTransactionsRequest, transactions, listed_transactions),
    ],
    ids=["groups", "groups of each", "transactions"],
)
def test_what_a_dead_broker_coordinated_is_found_at_its_successor(
    request_class: type[ListGroupsRequest | ListTransactionsRequest],
    answer: Callable[[list[str]], Response],
    listed: Callable[[ClientConfig], Iterator[str]],
) -> None:
    with ScriptedBroker() as first, ScriptedBroker() as second:
        alive = {1: first, 2: second}
        coordinated = {1: ["a"], 2: ["b"]}

        def dies(request: object) -> Answer:
            """Close the connection; the first broker, which has answered already, takes over."""
            second.stop_listening()
            del alive[2]
            coordinated[1] += coordinated.pop(2)
            return None

        for broker in (first, second):
            broker.handlers[MetadataRequest] = lambda request: metadata(alive, {})
        first.handlers[request_class] = lambda request: answer(coordinated[1])
        second.handlers[request_class] = dies
        assert list(listed(ClientConfig.from_dict({"bootstrap.servers": first.address}))) == ["a", "b"]
        assert first.seen[request_class] == 2

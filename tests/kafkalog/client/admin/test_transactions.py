"""Tests of transaction administration; those with open transactions are in `tests/kafkalog/cli/admin`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.client.admin.transactions import TransactionsAdmin
from kafkalog.client.errors import ClientTimeoutError
from tests.kafkalog.client.silent import SILENT_S, TP, silent_broker


@pytest.mark.timeout(SILENT_S / 2)
@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.list_transactions(),
        lambda admin: admin.describe_producers([TP]),
        lambda admin: admin.abort_transaction(TP, 1, 0),
    ],
    ids=["list", "describe", "abort"],
)
def test_a_call_ends_at_its_deadline(call: Callable[[TransactionsAdmin], Any]) -> None:
    with silent_broker() as config, TransactionsAdmin(config) as admin, pytest.raises(ClientTimeoutError):
        call(admin)

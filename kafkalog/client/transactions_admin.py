"""The public path of `TransactionsAdmin` up to version 0.1; new programs import it from ``kafkalog.client.admin``."""

from kafkalog.client.admin.transactions import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionsAdmin,
    TransactionState,
)

__all__ = [
    "HangingTransaction",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "TransactionsAdmin",
]

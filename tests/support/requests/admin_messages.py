"""Entries of administrators' requests, for tests and benchmarks that send very many of them."""

from __future__ import annotations

from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
)
from kafkalog.protocol.messages.create_acls import AclCreation
from kafkalog.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic


def acl() -> AclCreation:
    """Allow the user `a` to read the topic `t`."""
    return AclCreation(resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:a", host="*",
                       operation=3, permission_type=3)  # fmt: skip


def quota(client: str) -> AlterClientQuotasEntry:
    """Limit a client id to 1 GB/s of produced records."""
    return AlterClientQuotasEntry(
        entity=[AlterClientQuotasEntity(entity_type="client-id", entity_name=client)],
        ops=[AlterClientQuotasOp(key="producer_byte_rate", value=1e9)],
    )


def marker(*topics: WritableTxnMarkerTopic) -> WritableTxnMarker:
    """Commit the transaction of producer 1 in these topics."""
    return WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=list(topics))

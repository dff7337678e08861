"""AlterClientQuotas (key 49, versions 0 and 1): set and remove quotas of users, client ids and addresses (KIP-546).

Version 1 is flexible.

Errors of an entity: INVALID_REQUEST, KAFKA_STORAGE_ERROR, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, float64, int16, int32, string


class AlterClientQuotasEntity(Struct):
    entity_type: str = string("0+")  # "user", "client-id" or "ip"
    entity_name: str | None = string("0+", nullable="0+")  # null is the default of the type


class AlterClientQuotasResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[AlterClientQuotasEntity] = array(AlterClientQuotasEntity, "0+")


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    entries: list[AlterClientQuotasResult] = array(AlterClientQuotasResult, "0+")


class AlterClientQuotasOp(Struct):
    key: str = string("0+")  # such as "producer_byte_rate"
    value: float = float64("0+")  # ignored with remove
    remove: bool = boolean("0+")


class AlterClientQuotasEntry(Struct):
    entity: list[AlterClientQuotasEntity] = array(AlterClientQuotasEntity, "0+")
    ops: list[AlterClientQuotasOp] = array(AlterClientQuotasOp, "0+")


class AlterClientQuotasRequest(Request, key=49, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasEntry] = array(AlterClientQuotasEntry, "0+")
    validate_only: bool = boolean("0+")  # check, and change nothing

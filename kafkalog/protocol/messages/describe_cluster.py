"""DescribeCluster (key 60, versions 0 and 1): brokers, controller and id of the cluster (KIP-700).

All versions are flexible; version 1 can ask for controllers instead.

Errors: UNSUPPORTED_ENDPOINT_TYPE, MISMATCHED_ENDPOINT_TYPE, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterBroker(Struct):
    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)  # null where the broker has none


class DescribeClusterResponse(Response, key=60, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)  # as asked
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)  # -1 where there is none at present
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    cluster_authorized_operations: int = int32("0+", default=-2147483648)


class DescribeClusterRequest(Request, key=60, versions="0-1", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean("0+")
    # 1 brokers, 2 controllers; UNSUPPORTED_ENDPOINT_TYPE, MISMATCHED_ENDPOINT_TYPE
    endpoint_type: int = int8("1+", default=1)

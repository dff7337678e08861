"""ControlledShutdown (key 7, versions 0 to 3): a broker asks the controller to move its leaderships before it stops.

The broker repeats it until no partition is left. Version 0 has a request header without a client id, 2 has the broker's
epoch, 3 is flexible. The versions are not negotiated.

Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE where the broker is not registered,
CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class RemainingPartition(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")  # that the broker still leads


class ControlledShutdownRequest(Request, key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)

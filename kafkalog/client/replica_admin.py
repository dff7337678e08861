"""The public path of `ReplicaAdmin` up to version 0.1; new programs import it from ``kafkalog.client.admin``."""

from kafkalog.client.admin.replicas import (
    ElectionType,
    LogDirInfo,
    Reassignment,
    ReplicaAdmin,
    ReplicaInfo,
    ReplicaOnBroker,
)

__all__ = ["ElectionType", "LogDirInfo", "Reassignment", "ReplicaAdmin", "ReplicaInfo", "ReplicaOnBroker"]

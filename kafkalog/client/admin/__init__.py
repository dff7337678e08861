"""Administration of a cluster: `Admin` and its parts.

- `admin`                `Admin`, one object with a part for each subject
- `connected`            connections of its own, or those of another object: the base of `Admin` and its parts
- `every_broker`         one question to all brokers, for what they coordinate
- `unraised`             errors that are logged, because a call can raise only one
- `features`             the levels of features that brokers support and use, and their change (KIP-584)
- `topics`               create, delete, describe and grow topics; delete records
- `configs`              configurations of topics, brokers and groups
- `groups/`              consumer groups seen from outside: their members, states and committed offsets
- `quotas`               client quotas (KIP-546)
- `replicas/`            leader elections, reassignments, log directories, and why partitions changed
- `security/`            access control lists, delegation tokens, SCRAM credentials of users
- `transactions`         transactional ids, producers, hanging transactions (KIP-664)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkalog.client.admin.admin import Admin
    from kafkalog.client.admin.configs import (
        ConfigAdmin,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        ResourceType,
    )
    from kafkalog.client.admin.groups.descriptions import MemberToRemove
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.admin.quotas import ANY, QuotaAdmin
    from kafkalog.client.admin.replicas.replica_admin import ElectionType, ReplicaAdmin, ReplicaOnBroker
    from kafkalog.client.admin.security.acls import AclAdmin, AclBinding, AclFilter
    from kafkalog.client.admin.security.delegation_tokens import DelegationToken, DelegationTokenAdmin, Principal
    from kafkalog.client.admin.security.scram_users import ScramPassword, ScramUserAdmin
    from kafkalog.client.admin.topics import NewTopic, TopicAdmin
    from kafkalog.client.admin.transactions import TransactionsAdmin
    from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

__all__ = [
    "ANY",
    "AclAdmin",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "Admin",
    "ConfigAdmin",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "DelegationToken",
    "DelegationTokenAdmin",
    "ElectionType",
    "GroupAdmin",
    "MemberToRemove",
    "NewTopic",
    "Principal",
    "QuotaAdmin",
    "ReplicaAdmin",
    "ReplicaOnBroker",
    "ResourceType",
    "ScramPassword",
    "ScramUserAdmin",
    "TopicAdmin",
    "TransactionsAdmin",
]

_MODULES = {
    "ANY": "quotas",
    "AclAdmin": "security.acls",
    "AclBinding": "security.acls",
    "AclFilter": "security.acls",
    "AclOperation": "security.acls",
    "AclPatternType": "security.acls",
    "AclPermission": "security.acls",
    "AclResourceType": "security.acls",
    "Admin": "admin",
    "DelegationToken": "security.delegation_tokens",
    "DelegationTokenAdmin": "security.delegation_tokens",
    "ElectionType": "replicas.replica_admin",
    "GroupAdmin": "groups.group_admin",
    "MemberToRemove": "groups.descriptions",
    "NewTopic": "topics",
    "Principal": "security.delegation_tokens",
    "QuotaAdmin": "quotas",
    "ReplicaAdmin": "replicas.replica_admin",
    "ReplicaOnBroker": "replicas.replica_admin",
    "ScramPassword": "security.scram_users",
    "ScramUserAdmin": "security.scram_users",
    "TopicAdmin": "topics",
    "TransactionsAdmin": "transactions",
}
"""The modules of names; all other names are in `configs`."""


def __getattr__(name: str) -> Any:
    """Import what is named only then: a command that uses one part is to start at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'configs')}"), name)

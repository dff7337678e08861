"""Decides for requests: remembers decisions, and tells the audit log of them.

The audit log is the logger `kafka.authorizer.logger`, as with Apache Kafka, with Kafka's line: what is denied at INFO,
what is allowed at DEBUG. What no client has asked for, such as the topics that are left out of a list, is not told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.security.authorizer.model import Acls, Entries, ResourcePattern
from broker.security.authorizer.rules import AclRules, Decision, Principal
from kafkalog.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType

AUDIT_LOGGER = "kafka.authorizer.logger"
audit = logging.getLogger(AUDIT_LOGGER)

MOST_REMEMBERED = 100_000
"""The most decisions that are remembered: some 40 MB."""
LONGEST_REMEMBERED = 255
"""The longest name of a resource about which decisions are remembered. Clients may ask about names of 32 KB."""
LINE = (
    "Principal = %s is %s operation = %s from host = %s on resource = %s for request = %s with resourceRefCount = %d "
    "based on rule %s"
)
"""The line of Kafka's `StandardAuthorizer`. With `kafkalog.log.format=json` its parts are fields as well."""
LONGEST_SHOWN = 300
"""The longest name of a resource in the audit log."""

_Key = tuple[Principal, str, AclOperation, AclResourceType, str | None]


class Authorizer:
    """Decides what the clients of one broker may do. Used on the event loop's thread only.

    Args:
        super_users: who may do everything.
        allow_if_none: whether everybody may do what no entries are about.
        acls: the entries to begin with.

    Attributes:
        rules: decide. Change them by `change` only.
        revision: the number of changes so far.
    """

    def __init__(self, super_users: frozenset[Principal], *, allow_if_none: bool, acls: Acls | None = None) -> None:
        self.rules = AclRules(super_users, allow_if_none=allow_if_none, acls=acls)
        self.revision = 0
        self._decisions: dict[_Key, Decision] = {}

    def change(self, changes: Iterable[tuple[ResourcePattern, Entries]]) -> None:
        """Replace all entries of some patterns, as one change."""
        for pattern, entries in changes:
            self.rules.replace(pattern, entries)
        self._decisions.clear()
        self.revision += 1

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, kind: AclResourceType, name: str
    ) -> bool:
        """Return whether a principal may do an operation with a resource; the audit log is not told."""
        return self._decide((principal, host, operation, kind, name)).is_allowed

    def check(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        kind: AclResourceType,
        name: str,
        *,
        api: str,
        count: int = 1,
        tells_denied: bool = True,
    ) -> bool:
        """Do the same, and tell the audit log.

        Args:
            principal: the principal of the request.
            host: the address of its client.
            operation: the operation.
            kind: the type of the resource.
            name: the name of the resource.
            api: the name of the response's class.
            count: how often the request names the resource.
            tells_denied: whether a denial is logged. It is not logged if another right may allow the same.
        """
        decision = self._decide((principal, host, operation, kind, name))
        if decision.is_allowed:
            if audit.isEnabledFor(logging.DEBUG):
                _tell(logging.DEBUG, decision, principal, host, operation, f"{kind.title}:LITERAL:{name}", api, count)
        elif tells_denied and audit.isEnabledFor(logging.INFO):
            _tell(logging.INFO, decision, principal, host, operation, f"{kind.title}:LITERAL:{name}", api, count)
        return decision.is_allowed

    def check_any(
        self, principal: Principal, host: str, operation: AclOperation, kind: AclResourceType, *, api: str
    ) -> bool:
        """Return whether a principal may do an operation with some resource of a type, and tell the audit log."""
        key = (principal, host, operation, kind, None)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.rules.decide_for_any(principal, host, operation, kind)
            self._remember(key, decision)
        level = logging.DEBUG if decision.is_allowed else logging.INFO
        if audit.isEnabledFor(level):
            _tell(level, decision, principal, host, operation, f"{kind.title}:UNKNOWN:NONE", api, 0)
        return decision.is_allowed

    def authorized(self, principal: Principal, host: str, kind: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that a principal may do with a resource, as a bit field."""
        return self.rules.authorized(principal, host, kind, name)

    def _decide(self, key: tuple[Principal, str, AclOperation, AclResourceType, str]) -> Decision:
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.rules.decide(*key)
            if len(key[-1]) <= LONGEST_REMEMBERED:
                self._remember(key, decision)
        return decision

    def _remember(self, key: _Key, decision: Decision) -> None:
        if len(self._decisions) >= MOST_REMEMBERED:
            self._decisions.clear()
        self._decisions[key] = decision


def _tell(
    level: int,
    decision: Decision,
    principal: Principal,
    host: str,
    operation: AclOperation,
    resource: str,
    api: str,
    count: int,
) -> None:
    told = {
        "principal": _shown(":".join(principal)),
        "result": "Allowed" if decision.is_allowed else "Denied",
        "operation": operation.name,
        "host": host,
        "resource": _shown(resource),
        "request": api.removesuffix("Response"),
        "resource_ref_count": count,
        "rule": _shown(decision.reason),
    }
    audit.log(level, LINE, *told.values(), extra={"fields": told})


def _shown(text: str) -> str:
    """Return a text that a client may have chosen as one line of the log: it must not look like another line."""
    if len(text) > LONGEST_SHOWN:
        text = f"{text[:LONGEST_SHOWN]}..."
    return text if text.isprintable() else text.encode("unicode_escape").decode()

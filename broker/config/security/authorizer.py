"""Broker keys of the authorizer: whether there is one, and who needs no entries."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.definition import ConfigError, ConfigKey, Type, Value

BUILT_IN = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""The classes of Apache Kafka whose place the broker's own authorizer takes: they decide alike."""
OWN_ZOOKEEPER = "authorizer.zookeeper.url"
"""A key of Kafka's `AclAuthorizer`, which is not served."""


def _is_built_in(name: str, value: Value) -> None:
    if value and value not in BUILT_IN:
        # A broker that ignored it would let everybody do everything.
        raise ConfigError(
            f"Invalid value {value} for configuration {name}: this broker has an authorizer of its own, and loads no "
            f"other one. Write {BUILT_IN[0]} or {BUILT_IN[1]} for it, or leave the key empty for none"
        )


def _are_principals(name: str, value: Value) -> None:
    list(_principals(name, value))


def _principals(name: str, value: str) -> Iterator[tuple[str, str]]:
    for part in value.split(";"):
        text = part.strip()
        kind, colon, user = text.partition(":")
        if text and not (kind and colon and user):
            raise ConfigError(
                f"Invalid value for configuration {name}: {text} is not in the form Type:name, such as User:admin. "
                "Several are separated by semicolons"
            )
        if text:
            yield kind, user


def super_users(value: str) -> frozenset[tuple[str, str]]:
    """Return the principals of `super.users`, by type and name."""
    return frozenset(_principals("super.users", value))


AUTHORIZER_KEYS = [
    ConfigKey("authorizer.class.name", Type.STRING, "", f"Whether requests need access control entries (ACLs): empty, and everybody may do everything; {BUILT_IN[0]} or {BUILT_IN[1]}, and the broker's own authorizer decides by the rules that both have in common.", _is_built_in),
    ConfigKey("super.users", Type.STRING, "", "The principals that may do everything, whatever the entries say, separated by semicolons, such as User:admin;User:CN=broker1,O=Acme. With authorizer.class.name only.", _are_principals),
    ConfigKey("allow.everyone.if.no.acl.found", Type.BOOLEAN, False, "Whether everybody may do everything with resources that no entries are about. With authorizer.class.name only."),
]  # fmt: skip

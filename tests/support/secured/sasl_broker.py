"""A kafkalog broker with a listener for everybody and one with SASL."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any, Self

from kafkalog.client.admin import ScramPassword, ScramUserAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.protocol.scram import ScramMechanism
from tests.support.kafkalog_broker import KafkalogBroker

PASSWORDS = {"alice": "a-secret", "bob": "b, =secret", "admin": "admin-secret"}
"""The users of every mechanism, with their passwords."""
SCRAM = tuple(mechanism.value for mechanism in ScramMechanism)
MECHANISMS = ("PLAIN", *SCRAM)
PREFIX = "listener.name.sasl_plaintext"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_METRICS = re.compile(r"metrics are served on (http\S+)")
_SASL = re.compile(r"SASL_PLAINTEXT://([^\s,]+)")


def accounts(**more: str) -> str:
    """Return the login module with the accounts of PLAIN."""
    users = "".join(f' user_{name}="{password}"' for name, password in {**PASSWORDS, **more}.items())
    return f"{_PLAIN} required{users};"


class SaslBroker(KafkalogBroker):
    """See the module. `address` is that of the listener for everybody."""

    def __init__(self, directory: Path, overrides: dict[str, str] | None = None) -> None:
        super().__init__(
            directory,
            {
                "kafkalog.metrics.listener": "127.0.0.1:0",
                "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
                f"{PREFIX}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
                f"{PREFIX}.plain.sasl.jaas.config": accounts(),
                **(overrides or {}),
            },
        )

    @property
    def sasl_address(self) -> str:
        """Return host:port of the listener with SASL."""
        found = _SASL.findall(self.logged())
        return str(found[-1])

    @property
    def metrics_url(self) -> str:
        """Return where metrics are served."""
        return str(_METRICS.findall(self.logged())[-1])

    def connect_sasl(self) -> socket.socket:
        """Open a raw connection to the listener with SASL."""
        host, _, port = self.sasl_address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def properties(self, mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
        """Return the properties of a client, as our own clients and librdkafka take them."""
        return {
            "bootstrap.servers": self.sasl_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORDS.get(user, "unknown") if password is None else password,
        }

    def add_scram_users(self) -> Self:
        """Add the users of SCRAM by the listener for everybody."""
        config = ClientConfig.from_dict({"bootstrap.servers": self.bootstrap})
        with ScramUserAdmin(config) as admin:
            admin.alter(
                [ScramPassword(user, each, password) for user, password in PASSWORDS.items() for each in ScramMechanism]
            )
        return self

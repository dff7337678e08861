"""The mechanisms that need a user's name and password: PLAIN and SCRAM."""

from __future__ import annotations

from kafkalog.client.config import ClientConfig
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.protocol.wire.sasl import Plain, SaltedPasswords, Scram


def plain(config: ClientConfig) -> MechanismFactory:
    """Make what makes PLAIN's mechanisms."""
    username, password = config.credentials
    return lambda host, deadline: Plain(username or "", password or "")


def scram(config: ClientConfig) -> MechanismFactory:
    """Make what makes SCRAM's mechanisms; they share the salted passwords, which are slow to compute."""
    username, password = config.credentials
    algorithm = config.sasl_mechanism.removeprefix("SCRAM-")
    # As in Java's ScramLoginModule, with the HMAC of a delegation token as the password.
    is_token = config.jaas is not None and config.jaas.options.get("tokenauth", "").lower() == "true"
    salted = SaltedPasswords()
    return lambda host, deadline: Scram(
        algorithm, username or "", password or "", token_auth=is_token, salted_passwords=salted
    )

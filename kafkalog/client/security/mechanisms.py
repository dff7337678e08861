"""SASL mechanisms by name: what `sasl.mechanism` chooses, and the credentials that connections share.

A client makes one `MechanismFactory` for all its connections. The factory holds what they share, such as a token or
salted passwords, and makes one mechanism for each authentication. A mechanism that is new here gets a line in
`_MAKERS`, and its name in `config.MECHANISMS`.
"""

from __future__ import annotations

import importlib
from typing import Protocol

from kafkalog.client.config import ClientConfig
from kafkalog.protocol.wire.sasl import Mechanism


class MechanismFactory(Protocol):
    """Makes the mechanisms of one client. Several threads may call it."""

    def __call__(self, host: str, deadline: float) -> Mechanism:
        """Make a mechanism for one authentication with the broker on `host`.

        This may ask other servers, as for a token, until `deadline` (`time.monotonic`).

        Raises:
            AuthenticationError: There are no credentials to send.
            ConnectionFailedError: The server that gives credentials cannot be reached at present.
            ClientTimeoutError: The credentials did not come in time.
        """


class _Maker(Protocol):
    def __call__(self, config: ClientConfig) -> MechanismFactory:
        """Make the factory of a client.

        Raises:
            ConfigError: The configuration lacks what the mechanism needs.
        """


_MAKERS = {
    "PLAIN": "kafkalog.client.security.passwords:plain",
    "SCRAM-SHA-256": "kafkalog.client.security.passwords:scram",
    "SCRAM-SHA-512": "kafkalog.client.security.passwords:scram",
    "OAUTHBEARER": "kafkalog.client.security.oauth.factory:oauthbearer",
    "AWS_MSK_IAM": "kafkalog.client.security.msk:msk_iam",
    "GSSAPI": "kafkalog.client.security.kerberos.factory:gssapi",
}
"""The maker of each mechanism, as `module:function`. Modules are imported when they are needed: some need optional
packages."""


def make_mechanisms(config: ClientConfig) -> MechanismFactory | None:
    """Make what makes the mechanisms of a client's connections; None where they use no SASL.

    Raises:
        ConfigError: The configuration lacks what the mechanism needs.
    """
    if not config.uses_sasl:
        return None
    module, _, name = _MAKERS[config.sasl_mechanism].partition(":")
    make: _Maker = getattr(importlib.import_module(module), name)
    return make(config)

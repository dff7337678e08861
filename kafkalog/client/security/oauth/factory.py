"""Make OAUTHBEARER's mechanisms, all with the present token of one login."""

from __future__ import annotations

from dataclasses import replace

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.client.security.oauth.login import Login, shared_login
from kafkalog.client.security.oauth.options import SCOPE_KEY, OAuthOptions
from kafkalog.client.security.oauth.sources import make_source
from kafkalog.protocol.wire.oauthbearer import OAuthBearer
from kafkalog.protocol.wire.sasl import Mechanism


def oauthbearer(config: ClientConfig) -> MechanismFactory:
    """Make what makes the mechanisms of a client.

    Raises:
        ConfigError: The properties choose no source of tokens, or lack something.
    """
    jaas = {} if config.jaas is None else dict(config.jaas.options)
    options = config.oauth
    # Options that cannot be used are refused here, whether or not another client has made the login.
    source = make_source(options, jaas)
    login = shared_login((_hashable(options), tuple(sorted(jaas.items()))), lambda: Login(source, options))

    def make(host: str, deadline: float) -> Mechanism:
        token = login.token(deadline)
        whose = f" of {token.principal!r}" if token.principal else ""
        try:
            return OAuthBearer(
                token.value,
                f"the token{whose} from {source.name}",
                token.extensions,
                refused=lambda: login.refused(token),
                remedy=f"check the token's issuer, audience and times, and {SCOPE_KEY}",
            )
        except ValueError as error:
            raise AuthenticationError(f"the token from {source.name} cannot be sent: {error}") from None

    return make


def _hashable(options: OAuthOptions) -> OAuthOptions:
    """Return options for a key, which has the user's objects by their identity where they have no hash.

    The login of that key refers to the objects, so that no other object has this identity as long as there is the key.
    """
    return replace(options, oauth_cb=_hash_or_id(options.oauth_cb), token_provider=_hash_or_id(options.token_provider))


def _hash_or_id(given: object) -> object:
    try:
        hash(given)
    except TypeError:
        return id(given)
    return given

"""The keys of OAUTHBEARER: which tokens a listener takes.

Names and defaults are those of Apache Kafka 3.9. Each may be set for a listener and the mechanism:
`listener.name.<listener>.oauthbearer.<key>`.
"""

from __future__ import annotations

from broker.config.definition import ConfigKey, Scope, Type, at_least

_M = Scope.MECHANISM
OAUTH_KEYS = [
    ConfigKey("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, "Where the public keys are with which tokens are checked: https://… of the authorization server, or file:///….", scope=_M),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, "How often these keys are fetched. They are also fetched when a token names an unknown one, at most once a minute.", at_least(1), scope=_M),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type.LONG, 100, "The pause after a first attempt that failed; it doubles with each one that follows.", at_least(1), scope=_M),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, "The longest pause.", at_least(1), scope=_M),
    ConfigKey("sasl.oauthbearer.expected.issuer", Type.STRING, None, "The issuer (iss) that tokens need. Unset, the keys alone decide.", scope=_M),
    ConfigKey("sasl.oauthbearer.expected.audience", Type.LIST, None, "The audiences of which tokens need one (aud). Unset, tokens for an audience are refused.", skips_empty=True, scope=_M),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, "How far the clocks of the broker and of the issuer may differ.", at_least(0), scope=_M),
    ConfigKey("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", "The claim with the name of the principal.", scope=_M),
    ConfigKey("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", "The claim with the scopes. They grant nothing.", scope=_M),
]  # fmt: skip
"""The keys, in the order of the documentation."""

"""The keys of delegation tokens.

Names and defaults are those of Apache Kafka 3.9.
"""

from __future__ import annotations

from broker.config.definition import ConfigKey, Type, at_least

SECRET = "delegation.token.secret.key"
OLD_SECRET = "delegation.token.master.key"
_DAY_MS = 86_400_000

TOKEN_KEYS = [
    ConfigKey(SECRET, Type.PASSWORD, None, "The secret with which delegation tokens are made and checked, the same for all brokers of a cluster. Unset, there are no delegation tokens."),
    ConfigKey(OLD_SECRET, Type.PASSWORD, None, "The former name of delegation.token.secret.key."),
    ConfigKey("delegation.token.max.lifetime.ms", Type.LONG, 7 * _DAY_MS, "How long a delegation token lasts at most, with all renewals.", at_least(1)),
    ConfigKey("delegation.token.expiry.time.ms", Type.LONG, _DAY_MS, "How long a delegation token lasts until it has to be renewed.", at_least(1)),
    ConfigKey("delegation.token.expiry.check.interval.ms", Type.LONG, 3_600_000, "How often delegation tokens that are over are removed.", at_least(1)),
]  # fmt: skip
"""The keys, in the order of the documentation."""

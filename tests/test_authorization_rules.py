"""Test that the rights are stated which each served API needs: an API without would be open to everybody."""

from __future__ import annotations

from broker.api.registry import served_apis
from kafkalog.protocol.api_keys import ApiKey
from tests.broker.api.authorization_rules import RULES

OF_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""APIs of the owners and renewers of tokens; `broker/security/sasl/test_delegation_tokens` has the tests of them."""
WITHOUT_RULE = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} | OF_TOKENS
"""APIs that everybody may use."""
FILTERED = {ApiKey.DESCRIBE_CLUSTER, ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""APIs that leave out what a client may not see; `test_authorization` has the tests of them."""


def test_each_served_api_has_a_rule_that_is_tested() -> None:
    stated = {ApiKey(rule.message.api_key) for rule in RULES.values()} | WITHOUT_RULE | FILTERED
    assert {api.key for api in served_apis().values()} == stated

"""The rule of each served API: who may use it."""

from __future__ import annotations

from tests.broker.api import rules_of_administrators, rules_of_clients

RULES = {**rules_of_clients.RULES, **rules_of_administrators.RULES}

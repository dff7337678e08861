"""Fixtures: a broker with SASL for the tests that do not stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.secured.sasl_broker import SaslBroker


@pytest.fixture(scope="module")
def sasl_broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """Start a broker with users of all mechanisms."""
    with SaslBroker(tmp_path_factory.mktemp("sasl-broker")) as running:
        yield running.add_scram_users()

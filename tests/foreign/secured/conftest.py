"""Fixture: clients wait for a busy broker when they ask a listener which protocol it speaks."""

from __future__ import annotations

import pytest

from kafkalog.client.network import probe


@pytest.fixture(autouse=True)
def _patient_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have refusals name the property at fault, however long the broker takes to answer."""
    monkeypatch.setattr(probe, "PATIENCE_S", 30.0)

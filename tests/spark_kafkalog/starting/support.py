"""The program `kafkalog-python`, and the systems that have fork servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[3] / "scripts" / "kafkalog-python"

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="missing because only Linux has fork servers")

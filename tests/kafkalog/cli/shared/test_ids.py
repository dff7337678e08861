"""Test which texts are ids of partitions and brokers."""

from __future__ import annotations

import pytest

from kafkalog.cli.shared.client_options import UsageError
from kafkalog.cli.shared.ids import parse_ids


def test_ids() -> None:
    assert parse_ids(["0", " 7 ", "007", str((1 << 31) - 1)], "no") == [0, 7, 7, (1 << 31) - 1]
    assert parse_ids([], "no") == []


@pytest.mark.parametrize("word", ["", "x", "-1", "+1", "1_0", "1 0", "٣", "1.0", str(1 << 31), "9" * 5000])
def test_what_is_no_id(word: str) -> None:
    with pytest.raises(UsageError, match="expected ids"):
        parse_ids(["1", word], "expected ids")

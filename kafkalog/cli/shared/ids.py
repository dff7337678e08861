"""Ids of partitions and brokers, as users and files give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeGuard

from kafkalog.cli.shared.client_options import UsageError

_DIGITS = re.compile("[0-9]{1,10}")
"""The digits of an id. Python's `int` would also take 1_0."""


def is_int32(value: object) -> TypeGuard[int]:
    """Return whether this is an integer that an id of a partition or a broker can be; True and False are not."""
    return type(value) is int and 0 <= value < 1 << 31


def parse_ids(words: Sequence[str], complaint: str) -> list[int]:
    """Return the ids that words are.

    Raises:
        UsageError: A word is no id. `complaint` is the text.
    """
    ids = [int(each) for each in map(str.strip, words) if _DIGITS.fullmatch(each)]
    if len(ids) < len(words) or not all(map(is_int32, ids)):
        raise UsageError(complaint)
    return ids

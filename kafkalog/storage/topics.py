"""Names of topics: checks whether they are legal, and names Kafka's own topics.

A topic's name is a part of the names of its partitions' directories and a column of the checkpoint files. So it has 1
to 249 characters out of `a-z A-Z 0-9 . _ -` and is neither `.` nor `..` (Apache Kafka 3.9, `Topic.validate`).
"""

from __future__ import annotations

import re

MAX_TOPIC_NAME = 249

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""The topics with the coordinators' state, as in Apache Kafka 3.9. Clients may not write to them."""

NEWER_INTERNAL_TOPICS = frozenset({"__share_group_state", "__cluster_metadata"})
"""Kafka's own topics that a broker in ZooKeeper mode lacks, but a log directory of Apache Kafka may contain."""

_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME}}}")
_LEGAL_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]*")


def has_legal_characters(name: str) -> bool:
    """Return whether a name has only characters that are legal in a topic's name."""
    # Not `match` with `$`, which accepts a name that ends with a newline.
    return _LEGAL_CHARACTERS.fullmatch(name) is not None


def is_legal_topic(name: str) -> bool:
    """Return whether a topic may have this name."""
    return name not in (".", "..") and _LEGAL.fullmatch(name) is not None

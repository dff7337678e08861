"""Names of topics: which are legal, and which topics are Kafka's own.

A topic's name is a part of the names of its partitions' directories and a column of the checkpoint files. So it has 1
to 249 characters out of ``a-z A-Z 0-9 . _ -`` and is neither ``.`` nor ``..`` (Apache Kafka 3.9, ``Topic.validate``).
"""

from __future__ import annotations

import re

MAX_TOPIC_NAME = 249

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""Topics that coordinators keep their state in, as Apache Kafka 3.9 has them: clients may not write to them."""

NEWER_INTERNAL_TOPICS = frozenset({"__share_group_state", "__cluster_metadata"})
"""Topics of Kafka's own that a broker in ZooKeeper mode does not have, but a log directory of Apache Kafka may hold."""

_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME}}}")
_LEGAL_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]*")


def has_legal_characters(name: str) -> bool:
    """Whether a name has no other characters than those of a topic's name."""
    # Not `match` with `$`, which takes a name that ends with a newline.
    return _LEGAL_CHARACTERS.fullmatch(name) is not None


def is_legal_topic(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in (".", "..") and _LEGAL.fullmatch(name) is not None

"""Properties of a file that cannot be heeded, because keys and values pass through the mirror as bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

logger = logging.getLogger(__name__)

DESERIALIZERS = ("key.deserializer", "value.deserializer")
SERIALIZERS = ("key.serializer", "value.serializer")
_OF_BYTES = frozenset({"ByteArraySerializer", "ByteArrayDeserializer", "DefaultEncoder"})
"""Classes of Kafka's that leave bytes as they are."""


def without(names: Iterable[str], properties: Mapping[str, str], reason: str) -> dict[str, str]:
    """Return the properties without those of `names`, and log one warning of those that asked for anything but bytes.

    Args:
        names: The properties to leave out.
        properties: Those of a file.
        reason: What happens instead, for the warning.
    """
    found = {name: properties[name] for name in names if name in properties}
    if lost := [name for name, text in found.items() if text.strip().rpartition(".")[2] not in _OF_BYTES]:
        logger.warning("without effect: %s (%s)", ", ".join(lost), reason)
    return {name: text for name, text in properties.items() if name not in found}

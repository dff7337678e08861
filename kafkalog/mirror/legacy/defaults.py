"""Defaults with which a mirror loses and reorders nothing, as in MirrorMaker 1: a file may replace them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)

CONSUMER = {"enable.auto.commit": "false"}
FOR_EVER = {"delivery.timeout.ms": str(0x7FFFFFFF), "max.block.ms": str(0x7FFFFFFF)}
PRODUCER = {"acks": "all", "max.in.flight.requests.per.connection": "1", **FOR_EVER}
_SAME = {"-1": "all"}
"""Other ways to write a value."""


def with_defaults(defaults: Mapping[str, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a file with the defaults that it does not set; log one warning of those it replaces."""
    replaced = [key for key, text in defaults.items() if _value(properties.get(key, text)) != text]
    if replaced:
        listed = ", ".join(f"{key}={properties[key]}" for key in replaced)
        logger.warning("records may be lost or come in another order: the file sets %s", listed)
    return {**defaults, **properties}


def _value(text: str) -> str:
    plain = text.strip().lower()
    return _SAME.get(plain, plain)

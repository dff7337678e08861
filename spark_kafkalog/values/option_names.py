"""Names of the options that say how values are decoded."""

from __future__ import annotations

from collections.abc import Mapping

REGISTRY = (
    "schemaRegistry.url",
    "schemaRegistry.basic.auth.user.info",
    "schemaRegistry.timeout.ms",
    "schemaRegistry.retries",
    "schemaRegistry.ssl.ca.location",
    "schemaRegistry.max.missing.ids",
)
NAMES = ("valueFormat", "valueSchema", "avroFraming", "timeZone", "columnNameOfCorruptRecord", *REGISTRY)


def are_given(options: Mapping[str, str]) -> bool:
    """Return whether any of these options is set."""
    known = {name.lower() for name in NAMES}
    return any(name.lower() in known for name in options)

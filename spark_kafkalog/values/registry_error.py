"""What goes wrong beside the records."""

from __future__ import annotations


class SchemaRegistryError(RuntimeError):
    """The registry could not be asked, or gave an answer that is none; the message names its address."""

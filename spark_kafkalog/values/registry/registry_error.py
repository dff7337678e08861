"""The error of a schema registry, in a module that is quick to import."""

from __future__ import annotations


class SchemaRegistryError(RuntimeError):
    """The registry did not answer, or its answer is invalid; the message names its address."""

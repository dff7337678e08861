"""The error of a damaged segment, in a module that is quick to import."""

from __future__ import annotations


class CorruptLogError(RuntimeError):
    """A segment is damaged before its end; the message names the file and the position."""

"""Tell whether the active SparkContext belongs to this process, or to one that has forked it.

A forked process inherits its parent's connection to the JVM. What it sends there mixes with what the parent sends, and
the parent then takes answers to the child for its own. PySpark does not notice forks, and only a private attribute
tells, without the JVM, which SparkContext is active. If PySpark renames it, forked processes count as having none.
"""

from __future__ import annotations

import os
import sys

_inherited: list[object] = []
"""The active SparkContexts of the processes that have forked this one; None for a process that had none."""


def has_own_context() -> bool:
    """Return whether this process may ask the active SparkContext, if there is one."""
    active = active_context()
    return not any(active is each for each in _inherited)


def active_context() -> object:
    """Return the active SparkContext, also one that is inherited; None if there is none."""
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)


def _remember() -> None:
    _inherited.append(active_context())


os.register_at_fork(after_in_child=_remember)

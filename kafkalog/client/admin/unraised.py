"""Errors of a call about several things that are logged, because it can raise only one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger(__name__)


def log_unraised(errors: Iterable[Exception]) -> None:
    """Log the errors that are not raised, because another one is."""
    for error in errors:
        logger.warning("%s", getattr(error, "message", error))

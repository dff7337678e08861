"""Print the line by which a server tells that it is ready."""

from __future__ import annotations

import logging
import os
import sys

logger = logging.getLogger(__name__)


def ready_line(broker_id: int) -> str:
    """Return how the line of a broker begins; its addresses follow."""
    return f"kafkalog broker {broker_id} is accepting connections on "


def announce(line: str) -> None:
    """Print a line on standard output; log it where that cannot be written, because the server serves all the same."""
    try:
        print(line, flush=True)
    except OSError as error:
        logger.warning("Standard output cannot be written (%s). It would say: %s", error.strerror, line)
        # Python would try to write the line again at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)

"""Import modules before a process is forked, so that its children need not.

The libraries may have threads of their own when the process forks: numpy's BLAS and pyarrow's allocator have one each,
and both start anew in a child. This module starts none.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterable

logger = logging.getLogger(__name__)

DRIVER = (
    "spark_kafkalog.source",
    "spark_kafkalog.driver.batch_reader",
    "spark_kafkalog.driver.discovery",
    "spark_kafkalog.driver.stream_reader",
    "spark_kafkalog.plan.byte_sizes",
    "kafkalog.client.fetch.fetch_request",
)
"""kafkalog's modules that the driver's processes need."""
TASKS = ("pyspark_kafkalog", "spark_kafkalog.executor.range_reader")
"""kafkalog's modules that tasks need."""
_KERNELS = "reading"
"""The group of compiled kernels that decodes records."""


def import_all(modules: Iterable[str]) -> None:
    """Import modules. One that cannot be imported, for whatever reason, is left to the process that needs it."""
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:
            logger.debug("%s is not imported ahead", name, exc_info=True)


def load_kernels() -> None:
    """Load the kernels that decode records, if they are compiled already."""
    try:
        from kafkalog.records.kernels import loader
        from kafkalog.records.kernels.store import finding, places, processors

        if finding.find(_KERNELS, places.places(), processors.usable()) is not None:
            loader.load(_KERNELS)
    except Exception:
        logger.debug("kernels are not loaded ahead", exc_info=True)


def settle() -> None:
    """Exclude what was imported from garbage collection, in this process and its children.

    A collection writes to all objects that it visits, so that a child would get copies of the memory that they are in.
    """
    gc.collect()
    gc.freeze()


def reseed_children() -> None:
    """Give each forked process random numbers of its own where numpy's generator was imported before.

    Python's own generator, OpenSSL's and numba's see to that themselves.
    """
    os.register_at_fork(after_in_child=_reseed)


def _reseed() -> None:
    found = sys.modules.get("numpy.random")
    if found is not None:
        found.seed()

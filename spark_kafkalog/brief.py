"""Errors without the frames that led to them.

PySpark shows the traceback of an exception from a source before its message. For an error that a user can mend (a wrong
option, a broker that does not answer, lost records) the frames inside of kafkalog hide the message. So the methods that
PySpark calls raise such errors anew: one frame and one line. Defects keep their whole traceback.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, TypeVar

from kafkalog.client.errors import ClientError, KafkaError
from kafkalog.records.errors import RecordsError
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.transactional.errors import OnceError
from spark_kafkalog.values.registry.registry_error import SchemaRegistryError

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger(__name__)

EXPECTED = (
    OptionsError,
    SchemaRegistryError,
    ClientError,
    KafkaError,
    RecordsError,
    DataLossError,
    CorruptLogError,
    OnceError,
)
"""Errors of which the message says what to do. The log has their tracebacks at the level DEBUG."""


def brief(call: Callable[P, T]) -> Callable[P, T]:
    """Make a method that PySpark calls raise expected errors without the frames below it."""

    @functools.wraps(call)
    def briefly(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except EXPECTED as error:
            logger.debug("%s", error, exc_info=True)
            raise error.with_traceback(None) from None

    return briefly


def brief_rows(rows: Iterable[T]) -> Iterator[T]:
    """Yield what a task reads; raise expected errors as `brief` does."""
    try:
        yield from rows
    except EXPECTED as error:
        logger.debug("%s", error, exc_info=True)
        raise error.with_traceback(None) from None

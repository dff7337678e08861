"""Levels of the broker's loggers (KIP-412). They can be read and set while it runs, and are not stored.

Loggers have the names of modules. A folder is a logger, too: its level holds for the modules in it that have no level
of their own. The level of `root` holds for loggers that neither have a level nor are in a folder with one. Levels have
Kafka's names. Python has no TRACE; here it stands for every level below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.controller.alterations import Alteration, Op, check_alterations
from kafkalog.protocol.errors import InvalidConfigError, InvalidRequestError

ROOT = "root"
TRACE = 5
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""The levels by Kafka's names, the least verbose first."""

logger = logging.getLogger(__name__)


def level_name(level: int) -> str:
    """Return Kafka's name of the least verbose level that includes everything a Python logger logs at `level`."""
    return next((name for name, value in LEVELS.items() if level >= value), "TRACE")


class LoggerController:
    """Alter and describe the loggers that exist in this process."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def describe(self, broker: str) -> dict[str, str]:
        """Return the level, inherited or its own, of every logger by name.

        Raises:
            InvalidRequestError: `broker` is not this broker's id.
        """
        if not broker:
            raise InvalidRequestError("Broker id must not be empty")
        self._check_broker(broker)
        # Copied, because other threads may create loggers meanwhile. Of a folder the logger is made here.
        names = {*logging.root.manager.loggerDict.copy(), ROOT}
        return {name: level_name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(names)}

    def alter(self, broker: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Set levels; DELETE makes a logger inherit its level again. Apply all alterations, or none.

        Raises:
            InvalidRequestError: `broker` is not this broker's id, an operation is not for loggers, or ROOT would be
                left without a level.
            InvalidConfigError: there is no such logger or no such level.
        """
        check_alterations(alterations)
        self._check_broker(broker)
        for each in alterations:
            _check(each)
        if validate_only:
            return
        for each in alterations:
            named = logging.getLogger(each.name)
            if each.op is Op.DELETE:
                named.setLevel(logging.NOTSET)
                logger.warning("the log level of %s is that of the logger above it again", each.name)
            else:
                named.setLevel(LEVELS[each.value or ""])
                logger.warning("the log level of %s is %s", each.name, each.value)

    def _check_broker(self, name: str) -> None:
        if not name.isdecimal():
            raise InvalidRequestError(f"Node id must be an integer, but it is: {name}")
        if name != str(self._broker_id):
            raise InvalidRequestError(f"Unexpected broker id, expected {self._broker_id} but received {name}")


def _check(alteration: Alteration) -> None:
    name, op = alteration.name, alteration.op
    if op not in (Op.SET, Op.DELETE):
        raise InvalidRequestError(f"{op.name} operation is not allowed for the BROKER_LOGGER resource")
    if name != ROOT and name not in logging.root.manager.loggerDict:
        raise InvalidConfigError(f"Logger {name} does not exist!")
    if op is Op.DELETE and name == ROOT:
        raise InvalidRequestError(f"Removing the log level of the {ROOT} logger is not allowed")
    if op is Op.SET and alteration.value not in LEVELS:
        raise InvalidConfigError(
            f"Cannot set the log level of {name} to {alteration.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )

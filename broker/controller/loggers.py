"""Levels of the broker's loggers (KIP-412): read and set while it runs, gone when it ends.

A logger without a level of its own has that of the nearest one above it by name that has one, ``root`` at last. Levels
go by Kafka's names; Python has no TRACE, which is what is finer than DEBUG here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.controller.configs import Alteration, Op, check_alterations
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
"""From the least to the most that is logged."""

logger = logging.getLogger("kafkalog.broker")


def level_name(level: int) -> str:
    """What Kafka calls the level at which a logger logs all that one of Python's at ``level`` does, and least else."""
    return next((name for name, value in LEVELS.items() if level >= value), "TRACE")


class LoggerController:
    """The loggers of this process, those that something has asked for by name so far."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def describe(self, broker: str) -> dict[str, str]:
        """Every logger by name with its level, inherited or its own.

        Raises:
            InvalidRequestError: ``broker`` is not this broker's id.
        """
        if not broker:
            raise InvalidRequestError("Broker id must not be empty")
        self._check_broker(broker)
        # A copy: other threads may ask for loggers meanwhile.
        names = [name for name, each in logging.root.manager.loggerDict.copy().items() if _is_logger(each)]
        return {name: level_name(logging.getLogger(name).getEffectiveLevel()) for name in sorted({*names, ROOT})}

    def alter(self, broker: str, alterations: Sequence[Alteration], *, validate_only: bool) -> None:
        """Set levels, or with DELETE have loggers inherit them again. All of that or nothing.

        Raises:
            InvalidRequestError: ``broker`` is not this broker's id, an operation is not for loggers, or ROOT would be
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


def _is_logger(found: object) -> bool:
    """Whether it is a logger, and not the place of one that only those below it have been asked for."""
    return isinstance(found, logging.Logger)


def _check(alteration: Alteration) -> None:
    name, op = alteration.name, alteration.op
    if op not in (Op.SET, Op.DELETE):
        raise InvalidRequestError(f"{op.name} operation is not allowed for the BROKER_LOGGER resource")
    if name != ROOT and not _is_logger(logging.root.manager.loggerDict.get(name)):
        raise InvalidConfigError(f"Logger {name} does not exist!")
    if op is Op.DELETE and name == ROOT:
        raise InvalidRequestError(f"Removing the log level of the {ROOT} logger is not allowed")
    if op is Op.SET and alteration.value not in LEVELS:
        raise InvalidConfigError(
            f"Cannot set the log level of {name} to {alteration.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )

"""The settings of the Spark application that this process plans queries for.

PySpark gives the processes that plan a query the query's options, and none of the application's settings. But they are
children of the driver's JVM, whose command line has what `spark-submit`, `pyspark` and `SparkSession.builder` were
given, or names the file that has it. Settings that a program makes later, in a JVM that runs already, are not there.
Queries can have them among their options instead.

A program that has a session itself, such as a load, is asked for that first; a process that it forks is not. Where the
system has no `/proc`, planning processes find no settings.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from kafkalog.java_properties import PropertiesError, load_properties
from spark_kafkalog.compat.workers.forks import has_own_context
from spark_kafkalog.delegation.clusters import KEYTAB, PREFIX, PRINCIPAL, alias_of
from spark_kafkalog.starting.names import FORK_SERVER

logger = logging.getLogger(__name__)

_MAINS = ("org.apache.spark.deploy.SparkSubmit", "org.apache.spark.deploy.yarn.ApplicationMaster")
"""The main classes of JVMs that are drivers."""
_FLAGS = frozenset({"--help", "--verbose", "--version", "--supervise", "--usage-error", "--load-spark-defaults", "-v"})
"""Options of `spark-submit` that have no value."""
_SYSTEM = "-Dspark."
_NAMES = {"--keytab": KEYTAB, "--principal": PRINCIPAL}
"""Options of `spark-submit` that stand for settings."""
_FURTHEST = 16
"""The most ancestors of this process that are looked at."""
PROC = Path("/proc")
_settings: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""The settings of SparkContexts, which do not change. To read them takes hundreds of calls to the JVM."""


def application_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the application's settings that concern tokens, with those that a query has among its options."""
    given = {name: text for name, text in options.items() if name.startswith(PREFIX)}
    return joined({name: text for name, text in _settings_found().items() if _concerns_tokens(name)}, given)


def joined(settings: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the application's settings with those of a query, which replace them.

    Spark hands over a query's options with names in lower case. So they belong to an alias of the application whatever
    its case. If aliases differ in case only, they belong to the one that has the same case, or else to each of them.
    """
    aliases = {alias_of(name) for name in settings if name.startswith(PREFIX)}
    found = dict(settings)
    for name, text in given.items():
        alias = alias_of(name)
        same = {alias} & aliases or {each for each in aliases if each.lower() == alias.lower()} or {alias}
        found.update((f"{PREFIX}{each}{name[len(PREFIX) + len(alias) :]}", text) for each in same)
    return found


def setting(name: str) -> str | None:
    """Return the application's value of a setting; None if it has none."""
    return _settings_found().get(name)


def _settings_found() -> dict[str, str]:
    found = _of_session()
    return _of_driver() if found is None else found


def _of_session() -> dict[str, str] | None:
    """Return the settings of this process's own session, if it has one with a SparkContext."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not has_own_context():
        return None
    # Not above: hosts of tasks, and loads without Spark, may have none.
    from pyspark.errors import PySparkException

    try:
        # Another thread than the one that has made the session has no active one, but a default.
        context = sql.SparkSession.active().sparkContext
        if context not in _settings:
            _settings[context] = dict(context.getConf().getAll())
        return _settings[context]
    except PySparkException:
        # There is none. A session of Spark Connect does not have the settings.
        return None


def _of_driver() -> dict[str, str]:
    found = _driver(PROC, os.getpid())
    if found is None:
        return {}
    directory, words = found
    settings, file, with_defaults = parse_command_line(words)
    read: dict[str, str] = {}
    if file is None or with_defaults:
        read |= _read(_defaults(os.environ), must_exist=False)
    if file is not None:
        read |= _read(directory / file, must_exist=True)
    return {**_system_properties(words), **read, **settings}


def _concerns_tokens(name: str) -> bool:
    return name.startswith(PREFIX) or name in (KEYTAB, PRINCIPAL)


def parse_command_line(words: Sequence[str]) -> tuple[dict[str, str], str | None, bool]:
    """Return what a driver's command line sets: settings, the file of others, and whether to read the defaults, too.

    What follows the application's own file belongs to the application.
    """
    settings: dict[str, str] = {}
    file: str | None = None
    with_defaults = False
    at = next((at for at, word in enumerate(words) if word in _MAINS), len(words)) + 1
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        if option in _FLAGS:
            with_defaults |= option == "--load-spark-defaults"
            at += 1
            continue
        if not (equals and option.startswith("--")):
            option, value = words[at], words[at + 1] if at + 1 < len(words) else ""
            at += 1
        at += 1
        if option in ("--conf", "-c"):
            name, _, text = value.partition("=")
            settings[name] = text
        elif option in _NAMES:
            settings[_NAMES[option]] = value
        elif option == "--properties-file":
            file = value
    return settings, file, with_defaults


def _system_properties(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        if word in _MAINS:
            break
        if word.startswith(_SYSTEM):
            name, _, text = word[2:].partition("=")
            found[name] = text
    return found


def _driver(proc: Path, process: int) -> tuple[Path, list[str]] | None:
    """Return the working directory and the command line of the driver's JVM, if it is an ancestor of `process`."""
    try:
        for _ in range(_FURTHEST):
            words = (proc / str(process) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            if any(main in words for main in _MAINS):
                return proc / str(process) / "cwd", words[:-1]
            if FORK_SERVER in words:
                # Its parent, a launcher that the JVM has started, may have ended.
                process = int(words[words.index(FORK_SERVER) + 1])
            else:
                # The name in the second field may have blanks and parentheses.
                process = int((proc / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        # Another system, or there is no further ancestor.
        pass
    return None


def _defaults(environment: Mapping[str, str]) -> Path | None:
    directory = environment.get("SPARK_CONF_DIR")
    if directory is None and "SPARK_HOME" in environment:
        directory = f"{environment['SPARK_HOME']}/conf"
    return None if directory is None else Path(directory) / "spark-defaults.conf"


def _read(file: Path | None, *, must_exist: bool) -> dict[str, str]:
    if file is None or not (must_exist or file.exists()):
        return {}
    try:
        return {name: text.strip() for name, text in load_properties(file).items()}
    except PropertiesError as error:
        logger.warning(
            "the settings of the Spark application cannot be read, %s... is without effect: %s", PREFIX, error
        )
        return {}

"""Options of the offline reader: the log directories, and the source's options that need no broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions

PATH, PATHS = "path", "paths"
"""`load(DIR)` and `load([DIR, …])`; the latter comes as a JSON list."""
DEFAULT_MAX_BYTES_PER_PARTITION = 128 << 20
"""As `spark.sql.files.maxPartitionBytes`."""

_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_NO_BROKER = "offline:9"
"""The address of a discard service: nothing ever connects to it."""
_PROTOCOL = "kafka.security.protocol"


@dataclass(frozen=True)
class OfflineOptions:
    """Checked options of a query over log directories."""

    paths: tuple[str, ...]
    source: SourceOptions
    """The options that it shares with reading from brokers; the bootstrap servers in it do not exist."""

    @property
    def max_bytes_per_partition(self) -> int:
        """Bytes of segments that a task reads."""
        return self.source.max_bytes_per_partition or DEFAULT_MAX_BYTES_PER_PARTITION

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> OfflineOptions:
        """Check and convert options.

        Raises:
            OptionsError: An option is wrong. The text names it.
        """
        given = {name.lower(): value for name, value in options.items()}
        paths = _paths(given)
        if "kafka.bootstrap.servers" in given:
            raise OptionsError(
                "path and kafka.bootstrap.servers are both set: a query reads either log directories, without a "
                "broker, or from brokers. Leave one of them out."
            )
        rest = {name: value for name, value in options.items() if name.lower() not in (PATH, PATHS, _PROTOCOL)}
        # Nobody logs in, so that settings for delegation tokens do not matter.
        rest |= {"kafka.bootstrap.servers": _NO_BROKER, _PROTOCOL: "PLAINTEXT"}
        if not any(name in given for name in _STRATEGIES):
            rest["subscribePattern"] = ".*"  # all topics but internal ones
        return cls(paths, SourceOptions.parse(rest))


def is_offline(options: Iterable[str]) -> bool:
    """Return whether options, or names of options, name log directories."""
    return any(name.lower() in (PATH, PATHS) for name in options)


def refuse_stream(options: Mapping[str, str]) -> None:
    """Check that a streaming query does not name log directories.

    Raises:
        OptionsError: It names some.
    """
    if is_offline(options):
        raise OptionsError(
            "path: log directories are read in batch queries only (spark.read). A streaming query reads from brokers: "
            "set kafka.bootstrap.servers instead."
        )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    if PATHS in given:
        try:
            listed = json.loads(given[PATHS])
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise OptionsError(f"paths: expected a JSON list of directories, got {given[PATHS]}")
    else:
        listed = [given[PATH]]
    paths = tuple(dict.fromkeys(path for each in listed for path in map(str.strip, each.split(",")) if path))
    if not paths:
        raise OptionsError("path: no directory is named; expected a Kafka log directory, or several with commas")
    return paths

"""Describe the Python that runs this, as JSON in one line of standard output that begins with MARK.

`survey` hands the text of this module to `python -c` on hosts where kafkalog may be missing. So it imports the standard
library alone, and keeps to the syntax of OLDEST_PROBED. Standard input has the properties of Kafka clients as a JSON
object; with `bootstrap.servers` among them, the probe connects to all brokers. Nothing of the properties is printed,
except addresses.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import pkgutil
import platform
import socket
import sys
import time
from typing import Any

MARK = "kafkalog-probe: "
OLDEST_PROBED = "3.7"
VERSIONS = ("kafkalog", "pyspark", "pyarrow", "numba", "numpy")
CONNECT_S = 5.0


def describe(properties: dict[str, str]) -> dict[str, Any]:
    """Return what this Python is and has, as a dictionary; `facts.Probe` describes its entries."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "packages": {name: version_of(name) for name in VERSIONS},
        "source": None,
        "digest": None,
        "kernels": None,
        "memory": None,
        "failing": failing_sources(),
        "brokers": [],
    }
    try:
        source = importlib.import_module("pyspark_kafkalog")
        importlib.import_module("spark_kafkalog.executor.range_reader")
        found["source"] = os.path.dirname(os.path.dirname(os.path.abspath(str(source.__file__))))
        found["digest"] = digest(found["source"])
        found["kernels"] = kernels()
        found["memory"] = memory()
    except ImportError as error:
        found["problem"] = str(error)
    if properties.get("bootstrap.servers"):
        found["brokers"] = brokers(properties)
    return found


def version_of(name: str) -> str | None:
    """Return the version of an installed package, or None. Spark's archive of PySpark has no metadata."""
    module = {"kafkalog": "kafkalog", "pyspark": "pyspark.version"}.get(name)
    try:
        if module is not None:
            return str(importlib.import_module(module).__version__)
        # Python 3.7 has no such module.
        metadata = importlib.import_module("importlib.metadata")
        return str(metadata.version(name)) if importlib.util.find_spec(name) else None
    except Exception:  # noqa: BLE001  a package may fail in any way
        return None


def failing_sources() -> dict[str, str]:
    """Return the modules that Spark would import to look for sources and that fail, each with its error."""
    failing: dict[str, str] = {}
    for info in pkgutil.iter_modules():
        if info.name.startswith("pyspark_"):
            try:
                importlib.import_module(info.name)
            except BaseException as error:  # noqa: BLE001  Spark's look-up would fail, too
                failing[info.name] = f"{type(error).__name__}: {error}"
    return failing


def digest(root: str) -> str:
    """Return a digest over the sources of kafkalog below `root`, which tells apart states of one version."""
    total = hashlib.sha256()
    for package in ("kafkalog", "spark_kafkalog"):
        for directory, directories, files in os.walk(os.path.join(root, package)):
            directories.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(directory, name)
                    total.update(os.path.relpath(path, root).encode())
                    with open(path, "rb") as file:
                        total.update(file.read())
    return total.hexdigest()[:12]


def kernels() -> bool | None:
    """Return whether this host has the compiled kernels of a read, and load them; None if that cannot be told."""
    try:
        from kafkalog.records.kernels import loader
        from kafkalog.records.kernels.store import finding, places, processors

        if finding.find("reading", places.places(), processors.usable()) is None:
            return False
        loader.load("reading")
    except Exception:  # noqa: BLE001  another version of kafkalog, or of numba
        return None
    return True


def memory() -> int | None:
    """Return the proportional set size of this process in bytes, with all modules that a task uses; None if unknown."""
    try:
        with open("/proc/self/smaps_rollup") as lines:
            for line in lines:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def brokers(properties: dict[str, str]) -> list[dict[str, Any]]:
    """Connect to the bootstrap servers, and to all brokers that they name; return an entry for each address."""
    found = [connect("bootstrap", address) for address in properties["bootstrap.servers"].split(",") if address.strip()]
    if all(each["error"] for each in found):
        return found
    try:
        from kafkalog.client.admin import Admin
        from kafkalog.client.config import ClientConfig
    except ImportError:
        return found
    timeouts = {"request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}
    try:
        config = ClientConfig.from_dict(dict(timeouts, **properties))
        with Admin(config) as admin:
            described = admin.describe_cluster()
    except Exception as error:  # noqa: BLE001  it is reported
        first = properties["bootstrap.servers"].split(",")[0].strip()
        return [*found, {"kind": "cluster", "address": first, "error": str(error) or type(error).__name__}]
    addresses = sorted({f"{each.host}:{each.port}" for each in described.brokers.values()})
    return found + [connect("broker", address) for address in addresses]


def connect(kind: str, address: str) -> dict[str, Any]:
    """Open a connection to host:port; return its kind, address and error (None if it was accepted)."""
    host, _, port = address.strip().rpartition(":")
    error = None
    started = time.monotonic()
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError) as raised:
        late = time.monotonic() - started >= CONNECT_S
        error = f"no answer in {CONNECT_S:.0f} s" if late else str(raised)
    return {"kind": kind, "address": address.strip(), "error": error}


if __name__ == "__main__":
    print(MARK + json.dumps(describe(json.loads(sys.stdin.read() or "{}"))))

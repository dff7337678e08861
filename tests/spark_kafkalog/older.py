"""Other versions of PySpark that the source supports, each in its own environment.

Spark's own Kafka connector fits the oldest. `python -m tests.spark_kafkalog.older` installs them before the tests do.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pyspark

from peers.cache import MissingPeerError, cached
from peers.toolchains import java, maven
from spark_kafkalog.compat.versions import TESTED

PYSPARK = "4.2.0"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{PYSPARK}",
    # Maven Central lacks this part in the connector's own version. It is about Kerberos and delegation tokens.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)
_PACKAGES = (
    "pyarrow>=18,<27",
    "numpy>=1.26,<3",
    "numba>=0.61,<1",
    "crc32c>=2.7,<3",
    "crcmod>=1.7,<2",
    "cramjam>=2.9,<3",
    "lz4>=4.3,<5",
    "prometheus-client>=0.21,<1",
    "kazoo>=2.10,<3",
    "fastavro>=1.9,<2",
    "confluent-kafka>=2.6,<3",
    "pytest>=8.3,<10",
    "pytest-timeout>=2.3,<3",
    "hypothesis>=6.115,<7",
    "psutil>=6,<8",
)
_IN_SPARK = ("hadoop-client-", "scala-library-", "slf4j-api-")
_INSTALL_TIMEOUT_S = 1800


def python(version: str = PYSPARK) -> Path:
    """Return the Python of an environment with PySpark and what kafkalog and its tests need, but without kafkalog.

    Raises:
        MissingPeerError: The environment cannot be installed.
    """

    def install(directory: Path) -> None:
        pip = [str(directory / "bin" / "python"), "-m", "pip"]
        for command in (
            [sys.executable, "-m", "venv", str(directory)],
            [*pip, "install", "--quiet", "--no-compile", f"pyspark=={version}", *_PACKAGES],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False)
            if done.returncode != 0:
                raise MissingPeerError(f"missing because PySpark {version} cannot be installed: {done.stderr[-1500:]}")

    tag = f"py{sys.version_info.major}{sys.version_info.minor}"
    packages = hashlib.sha256(" ".join(_PACKAGES).encode()).hexdigest()[:8]
    return cached(f"venv/pyspark-{version}-with-tests-{tag}-{packages}", install) / "bin" / "python"


def connector() -> list[Path]:
    """Return the jars of Spark's Kafka connector.

    Raises:
        MissingPeerError: The jars cannot be fetched.
    """
    return [jar for jar in maven.classpath(CONNECTOR) if not jar.name.startswith(_IN_SPARK)]


def missing(version: str = PYSPARK) -> str | None:
    """Return why a version of PySpark cannot run here, or None. The first call installs it."""
    if reason := java.missing():
        return reason
    try:
        python(version)
    except MissingPeerError as error:
        return str(error)
    return None


if __name__ == "__main__":
    for other in sorted(TESTED - {pyspark.__version__}):
        print(f"PySpark {other}: {missing(other) or 'ready'}")

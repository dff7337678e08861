"""Find Java and the classes of a ZooKeeper server: those of an installation, or those that come with PySpark."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

OF_PYSPARK = (
    "zookeeper-*",
    "netty-*",
    "slf4j-api-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-slf4j*",
    "snappy-java-*",
    "metrics-core-*",
    "commons-io-*",
)
"""PySpark's jars that the server loads classes from. The many others would only make its start slower."""


class MissingZooKeeperError(Exception):
    """There is no Java, or no ZooKeeper; the message says what to do."""


def find_java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of `java`: that of `JAVA_HOME`, else the first one of `PATH`.

    Raises:
        MissingZooKeeperError: There is none.
    """
    home = environment.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else environment.get("PATH"))
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "in PATH"
        raise MissingZooKeeperError(
            f"ZooKeeper needs Java, and there is no java {where}. Install one, or set JAVA_HOME"
        )
    return found


def find_jars(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the class path of the server: that of `ZOOKEEPER_HOME` if it is set, else PySpark's jars.

    Raises:
        MissingZooKeeperError: There is none.
    """
    home = environment.get("ZOOKEEPER_HOME")
    if home:
        found = [*_of(Path(home, "lib"), "*"), *_of(Path(home), "zookeeper-*")]
        if not any(jar.name.startswith("zookeeper-") for jar in found):
            raise MissingZooKeeperError(
                f"ZOOKEEPER_HOME is {home}, and neither it nor its lib has a zookeeper-*.jar. "
                "Set it to the directory of an unpacked ZooKeeper release, or unset it to use PySpark's"
            )
        return [Path(home, "conf"), *found]
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [jar for place in places for name in OF_PYSPARK for jar in _of(Path(place, "jars"), name)]
    if not any(jar.name.startswith("zookeeper-") for jar in found):
        raise MissingZooKeeperError(
            "No ZooKeeper was found. Its classes come with PySpark (pip install 'kafkalog[spark]'); "
            "or set ZOOKEEPER_HOME to the directory of an unpacked ZooKeeper release"
        )
    return found


def _of(directory: Path, name: str) -> list[Path]:
    return sorted(directory.glob(f"{name}.jar"))

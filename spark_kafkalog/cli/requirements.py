"""Requirements of Spark on this machine: PySpark and Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_MAJOR = 17


def missing_requirement() -> str | None:
    """Return what is missing and how to install it, or None when nothing is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "Spark is not installed here: pip install 'kafkalog[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    hint = "Debian/Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17"
    if java is None:
        return f"Spark needs Java {JAVA_MAJOR} or newer and none was found. {hint}"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"Java cannot be run: {error}. {hint}"
    version = re.search(r'version "(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < JAVA_MAJOR:
        found = f"Java {version[1]}" if version else "something else"
        return f"Spark needs Java {JAVA_MAJOR} or newer; {java} is {found}. {hint}"
    return None

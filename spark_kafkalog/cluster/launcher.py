"""The text of an archive's `bin/python`: it runs a host's own Python with the archive's packages.

A virtual environment is tied to the place of its interpreter. An archive goes to hosts where that may be elsewhere, so
it has no interpreter, but this script, which looks for the right one.
"""

from __future__ import annotations

import shlex

BASE_VARIABLE = "KAFKALOG_BASE_PYTHON"
"""Names the interpreter on a host where the script does not find it."""
PACKAGES = "lib/site-packages"
"""The directory in which the archive has its packages."""
_PLACES = ("", "/usr/bin/", "/usr/local/bin/", "/opt/bin/")

_TEXT = """\
#!/bin/sh
# Runs this host's Python {version} with the packages of this archive.
here=$(dirname "$(dirname "$(readlink -f "$0")")")
if [ "$(uname -sm)" != {system} ]; then
  echo "kafkalog: the packages of $here are for "{system}", and this host is $(uname -sm)" >&2
  exit 126
fi
is_right() {{
  [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = {version} ]
}}
found=
if [ -n "${{{variable}:-}}" ]; then
  is_right "${variable}" || {{
    echo "kafkalog: {variable} is ${variable}, which is no Python {version}" >&2
    exit 126
  }}
  found=${variable}
fi
for each in {candidates}; do
  [ -n "$found" ] && break
  found=$(command -v "$each"){check} || found=
done
if [ -z "$found" ] && is_right python3; then
  found=python3
fi
if [ -z "$found" ]; then
  echo "kafkalog: this host has no Python {version}, which the packages of $here need." \\
    "Install it, or name it: --conf spark.executorEnv.{variable}=PATH" >&2
  exit 127
fi
export PYTHONPATH="$here/{packages}${{PYTHONPATH:+:$PYTHONPATH}}"
exec "$found" "$@"
"""


def script(version: str, system: str, base: str | None) -> str:
    """Return the script for a minor version of Python (`3.11`) and a system as `uname -sm` names it.

    `base` is the path of the interpreter on the hosts, if it is known. Other candidates have the version in their name.
    """
    candidates = [base] if base else [f"{place}python{version}" for place in _PLACES]
    return _TEXT.format(
        version=version,
        system=shlex.quote(system),
        variable=BASE_VARIABLE,
        candidates=" ".join(map(shlex.quote, candidates)),
        check=' && is_right "$found"' if base else "",
        packages=PACKAGES,
    )

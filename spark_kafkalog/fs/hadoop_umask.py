"""The umask of Hadoop's clients, `fs.permissions.umask-mode`: hdfs-native does not heed it.

It is in `core-site.xml` or `hdfs-site.xml`, in the directory where hdfs-native finds them. So may be the setting by
which a NameNode heeds the umask also below directories that have a default ACL.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

KEY = "fs.permissions.umask-mode"
DEFAULT = 0o022
_INHERITANCE = "dfs.namenode.posix.acl.inheritance.enabled"
_FILES = ("core-site.xml", "hdfs-site.xml")
"""The files of the configuration; settings of the second replace those of the first."""
_OCTAL = re.compile("0?([0-7]{3})")
_SYMBOLIC = re.compile(r"([ugoa]*)=([rwx]*)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}


def umask() -> int:
    """Return the umask of this process's configuration.

    Raises:
        OSError: The configuration cannot be read, or has a umask that is none.
    """
    found = _setting(KEY)
    if found is None:
        return DEFAULT
    path, text = found
    try:
        return parse(text)
    except ValueError as error:
        raise OSError(f"{path}: {KEY}={text}: {error}") from None


def default_acls_replace_it() -> bool:
    """Return whether a default ACL of the parent directory replaces the umask, as in POSIX (HDFS-6962, Hadoop 3.0).

    Raises:
        OSError: The configuration cannot be read.
    """
    found = _setting(_INHERITANCE)
    return found is None or found[1].lower() != "false"


def _setting(key: str) -> tuple[Path, str] | None:
    """Return the file that has a setting, and its text; None if no file has it, or only without a text."""
    directory, home = os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME")
    if directory is None and home is not None:
        directory = f"{home}/etc/hadoop"
    return None if directory is None else _setting_in(directory, key)


@functools.cache
def _setting_in(directory: str, key: str) -> tuple[Path, str] | None:
    """Return the last text of a setting and its file, as `_setting` does. What is final is not replaced.

    That is what `loadProperty` of Hadoop's Configuration does.
    """
    found: tuple[Path, str] | None = None
    for path in (Path(directory, name) for name in _FILES):
        for text, is_final in _texts(path, key):
            found = (path, text) if text else found
            if is_final:
                return found
    return found


def _texts(path: Path, key: str) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a setting in a file, and whether they are final."""
    # Imported here because most processes read no configuration.
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(path.read_bytes())
    except FileNotFoundError:
        return
    except ElementTree.ParseError as error:
        raise OSError(f"{path} is no XML: {error}") from None
    for each in root.iter("property"):
        # Name, value and mark are elements, or attributes in the short form.
        name, text, final = (each.findtext(part, each.get(part, "")) for part in ("name", "value", "final"))
        if name.strip() == key:
            yield text.strip(), final == "true"


def parse(text: str) -> int:
    """Parse a umask, octal (`027`) or by the permissions that it leaves (`u=rwx,g=rx,o=`).

    Raises:
        ValueError: The text is neither.
    """
    if octal := _OCTAL.fullmatch(text):
        return int(octal[1], 8)
    left = 0
    for part in text.split(","):
        match = _SYMBOLIC.fullmatch(part.strip())
        if match is None:
            raise ValueError("expected octal digits such as 027, or permissions such as u=rwx,g=rx,o=")
        classes = "ugo" if not match[1] or "a" in match[1] else match[1]
        for each in set(classes):
            left &= ~(7 << _SHIFTS[each])
            left |= sum(_BITS[bit] for bit in set(match[2])) << _SHIFTS[each]
    return ~left & 0o777

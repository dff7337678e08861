"""Options with secrets, and Spark's setting that hides them where it shows the options of a query.

Spark hides options whose names or values have `secret`, `password`, `token` or `access key`
(`spark.redaction.regex`) or match `spark.sql.redaction.options.regex`. So `explain(True)` of a stream shows a text for
`kafka.sasl.jaas.config` without the word password, and a private key. One line hides them for a session and the queries
that it starts:

    from spark_kafkalog import redaction

    redaction.hide_secrets(spark)

A process that plans queries is not told a session's settings. `hide_secrets` leaves an empty file for it among the
application's files (`SparkFiles`): once any session has called it, no stream of the application is warned about. A
client of Spark Connect has no such files, so its streams are warned about all the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from spark_kafkalog.compat.gateway.application_files import directory
from spark_kafkalog.delegation.application import setting
from spark_kafkalog.options.java_patterns import PatternError, compile_java

logger = logging.getLogger(__name__)

KEY = "spark.sql.redaction.options.regex"
NAMES = (
    "passwor[d]|passphrase|secre[t]|toke[n](?![.]endpoint[.]url)|jaas|user[.]info|keystore[.]key$|key[.]pem$|"
    "oauthbearer[.]config$"
)
"""The pattern of the names of options with secrets. It has no backslashes, so that it can stand in files of settings as
it is, and none of Spark's own words for secrets: Spark takes a setting whose value has one for a secret. Spark Connect
then says that there is no such setting."""
VALUES = "://[^/ @]*:[^/ ]*@|://[^/ @:]*:(?![0-9]*[/?#,])[^ ]*@|PRIVATE KEY-----"
"""The pattern of values with secrets: a user and a password in a URL, or a private key in PEM. A password may have
characters that would have to be written otherwise in a URL, unless it looks like a port with a path behind it."""
_SPARKS_OWN = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
"""The default of `spark.redaction.regex`, which is looked for beside the options' own pattern."""
_DEFAULT = "(?i)url"
"""Spark's default of the setting."""
SETTING = f"(?i:url|{NAMES}|{VALUES})"
"""A value of the setting, for `spark-defaults.conf` and `--conf`."""
_NAME = re.compile(NAMES, re.IGNORECASE)
_VALUE = re.compile(VALUES)
_MARK = "kafkalog-hides-secrets"
_TOLD = "kafkalog-told-of-secrets"
_REFERENCE = re.compile(r"\s*\$\{[^{}]*\}\s*")


def is_secret(name: str, value: str) -> bool:
    """Return whether an option has a secret, or may have one."""
    return _NAME.search(name) is not None or _VALUE.search(value) is not None


def hide_secrets(spark: Any) -> None:
    """Have Spark hide options with secrets in the plans of a session, beside those that it hides already.

    Other sessions of the application need this line, too.

    Args:
        spark: The session, a classic one or one of Spark Connect.
    """
    before = spark.conf.get(KEY, _DEFAULT)
    if NAMES not in before:
        spark.conf.set(KEY, f"(?:{before})|{SETTING}")
    files = directory()
    if files is not None:
        (files / _MARK).touch()


def shown(options: Mapping[str, str]) -> list[str]:
    """Return the names of a query's options with secrets that Spark shows, for a process that plans the query."""
    secrets = {name: text for name, text in options.items() if is_secret(name, text) and not _REFERENCE.fullmatch(text)}
    found = [name for name, text in sorted(secrets.items()) if not _SPARKS_OWN.search(f"{name}\n{text}")]
    if not found or _has_mark():
        return []
    pattern = setting(KEY) or _DEFAULT
    return [name for name in found if not _hidden(pattern, name, options[name])]


def warn_about(options: Mapping[str, str]) -> None:
    """Warn once in an application of a stream whose secrets `explain(True)` shows; name the line that hides them."""
    names = shown(options)
    if names and _is_first():
        logger.warning(
            "explain(True) of this stream shows %s, unless its session hides it; to hide it, add: "
            "from spark_kafkalog import redaction; redaction.hide_secrets(spark)",
            ", ".join(names),
        )


def _hidden(pattern: str, name: str, value: str) -> bool:
    if NAMES in pattern:
        return True
    try:
        matches = compile_java(pattern)
    except PatternError:
        # Spark reads it otherwise, or refuses it.
        return False
    return matches(name) or matches(value)


def _is_first() -> bool:
    """Return whether nothing was said of it; PySpark makes a stream's reader in several processes."""
    files = directory()
    if files is None:
        return True
    try:
        (files / _TOLD).touch(exist_ok=False)
    except OSError:
        return False
    return True


def _has_mark() -> bool:
    files = directory()
    # The files of a session may be in a directory of their own, below that of the application.
    return files is not None and any((each / _MARK).exists() for each in (files, files.parent))

"""PEM blocks in text: as in Java, all text around them is for people.

Pure: text in, text out.
"""

from __future__ import annotations

import re

CERTIFICATE = r"(?:TRUSTED |X509 )?CERTIFICATE"
PRIVATE_KEY = r"(?:[A-Z0-9]+ )*PRIVATE KEY"


def count(label: str, text: str) -> int:
    """Count the lines that begin blocks; `label` is a regular expression such as CERTIFICATE."""
    return len(re.findall(f"-----BEGIN {label}-----", text))


def blocks(label: str, text: str) -> str:
    """Return the blocks with such a label, in ASCII, one after another.

    A damaged block is among them, so that OpenSSL refuses it: to leave it out would be silent.
    """
    pattern = re.compile(f"-----BEGIN (?P<label>{label})-----(?P<body>.*?)(?:-----END (?P=label)-----|\\Z)", re.DOTALL)
    found = "".join(f"{match[0]}\n" for match in pattern.finditer(text))
    return found.encode("ascii", "replace").decode("ascii")

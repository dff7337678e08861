"""PEM blocks in text: as in Java, text around them and white space within their Base64 are for people.

Pure: text in, text out.
"""

from __future__ import annotations

import re

CERTIFICATE = r"(?:TRUSTED |X509 )?CERTIFICATE"
PRIVATE_KEY = r"(?:[A-Z0-9]+ )*PRIVATE KEY"

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+", re.ASCII)
_LINE = 64


def count(label: str, text: str) -> int:
    """Count the lines that begin blocks; `label` is a regular expression such as CERTIFICATE."""
    return len(re.findall(f"-----BEGIN {label}-----", text))


def blocks(label: str, text: str) -> str:
    """Return the blocks with such a label, in ASCII and as OpenSSL wants their lines, one after another.

    A damaged block is among them, so that OpenSSL refuses it: to leave it out would be silent.
    """
    pattern = re.compile(f"-----BEGIN (?P<label>{label})-----(?P<body>.*?)(?:-----END (?P=label)-----|\\Z)", re.DOTALL)
    found = "".join(f"{_with_lines(match)}\n" for match in pattern.finditer(text))
    return found.encode("ascii", "replace").decode("ascii")


def _with_lines(block: re.Match[str]) -> str:
    label, body = block["label"], block["body"]
    end = f"-----END {label}-----"
    if not block[0].endswith(end) or not _BASE64.fullmatch(body):
        # Damaged, or an encrypted key whose headers are lines of their own (`Proc-Type:`, RFC 1421).
        return block[0]
    base64 = "".join(body.split())
    lines = [base64[at : at + _LINE] for at in range(0, len(base64), _LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, end])

"""Test that the page about failures has messages that the code has, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkalog.data_loss import Condition
from tests.support.sources.messages import messages, raised

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "when-it-fails.md"
OF_SPARK = "Messages of Spark"
FRAMES = ("security.protocol=… at …: …",)
"""Texts of which every part is a message of its own."""


def listed() -> Iterator[str]:
    """Yield the messages in the first columns of the page's tables, except Spark's own."""
    for section in PAGE.read_text().split("\n## ")[1:]:
        if section.startswith(OF_SPARK):
            continue
        for row in section.splitlines():
            if row.startswith("| `"):
                (found,) = re.findall(r"^\| `(.+?)` \|", row)
                yield found


@pytest.fixture(scope="module")
def known() -> set[str]:
    client = ROOT / "kafkalog" / "client"
    return messages(ROOT / "spark_kafkalog", client, ROOT / "kafkalog" / "cli", ROOT / "kafkalog" / "protocol" / "wire")


@pytest.mark.parametrize("message", sorted(listed()))
def test_the_code_has_the_message(message: str, known: set[str]) -> None:
    assert any(message.strip() in text for text in known), f"no text in the code contains: {message}"


def test_every_message_of_security_is_explained() -> None:
    client, wire = ROOT / "kafkalog" / "client", ROOT / "kafkalog" / "protocol" / "wire"
    mechanisms = [wire / f"{name}.py" for name in ("sasl", "oauthbearer", "gssapi", "msk_iam")]
    found = raised(client / "security", ROOT / "spark_kafkalog" / "delegation", *mechanisms)
    # These modules make texts that others raise. A text between commas is put into another one.
    texts = messages(client / "network" / "refusals.py", client / "security" / "kerberos" / "failures.py")
    found |= {text for text in texts if (": " in text or "; " in text) and text not in FRAMES}
    rows = [row.strip() for row in listed()]
    unexplained = {text for text in found if not any(row in text for row in rows)}
    assert unexplained == set()


def test_every_condition_of_data_loss_is_explained() -> None:
    section = PAGE.read_text().partition("## Records are gone\n")[2].partition("\n## ")[0]
    assert sum(row.startswith("| `") for row in section.splitlines()) == len(Condition)


def test_messages_are_found(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        '"""A docstring that is no message."""\n'
        "def f(x):\n"
        '    """Another docstring, of a function."""\n'
        '    logger.warning("a warning of %s in %5.1f s", x, x)\n'
        '    raise ValueError(f"the value {x!r} cannot be " "used")\n'
    )
    assert messages(tmp_path) == {"a warning of … in … s", "the value … cannot be used"}

"""Test that the page about failures has messages that the code has, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkalog.data_loss import Condition
from tests.support.messages import messages

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "when-it-fails.md"
OF_SPARK = "Messages of Spark"


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
    return messages(ROOT / "spark_kafkalog", ROOT / "kafkalog" / "client", ROOT / "kafkalog" / "cli")


@pytest.mark.parametrize("message", sorted(listed()))
def test_the_code_has_the_message(message: str, known: set[str]) -> None:
    assert any(message.strip() in text for text in known), f"no text in the code contains: {message}"


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

"""The examples of docs/producer.md run as they stand, one after another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.protocol.errors import TopicAlreadyExistsError

PAGE = Path(__file__).parents[2] / "docs" / "producer.md"


@pytest.mark.timeout(300)
def test_examples(broker_address: str, admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("words", "pages"):
        try:
            admin.create_topics([NewTopic(name, 2, 1)])
        except TopicAlreadyExistsError:
            continue
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 5
    names: dict[str, Any] = {"BOOTSTRAP": broker_address}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert re.search(r"^words [01] \d+$", printed, re.MULTILINE)
    assert "records at offsets" in printed
    assert "delivered: RecordMetadata" in printed
    assert names["left"].began

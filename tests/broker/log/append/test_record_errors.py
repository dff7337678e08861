"""Test that errors of record bytes become the errors of Kafka that their docstrings name."""

from __future__ import annotations

import inspect
import re

import pytest

from broker.api.errors import error_code
from broker.log.append.record_errors import as_protocol_error
from kafkalog.protocol.errors import ErrorCode, error_for
from kafkalog.records import errors
from kafkalog.records.errors import RecordsError

KINDS = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, RecordsError)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_that_the_docstring_names(kind: type[RecordsError]) -> None:
    named = re.search(r"\(([A-Z_]+)\)", kind.__doc__ or "")
    code = ErrorCode[named[1]] if named else ErrorCode.INVALID_RECORD
    found = as_protocol_error(kind("what is wrong"), "t-0")
    assert type(found) is type(error_for(code))
    assert found.message == "what is wrong in topic partition t-0"
    assert error_code(kind("what is wrong")) is found.code is code

"""Test how options are parsed."""

from __future__ import annotations

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import decimal, integer


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("+7", 7), ("-10", -10), ("٣", 3)])
def test_integers_are_those_of_java(text: str, value: int) -> None:
    assert integer(-10, 10)(text) == value


@pytest.mark.parametrize("text", ["", "1_0", " 1", "1.0", "0x1", "x", "11", "-11", "9" * 5000])
def test_what_is_no_integer_of_the_range(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an integer from -10 to 10"):
        integer(-10, 10)(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), (".5", 0.5), ("5e-1", 0.5), ("0.5f", 0.5), ("1.", 1.0)])
def test_decimals_are_those_of_java(text: str, value: float) -> None:
    assert decimal(0, 1)(text) == value


@pytest.mark.parametrize("text", ["", "0_1", "nan", "NaN", "Infinity", "1e400", "1.1", "-0.1"])
def test_what_is_no_decimal_of_the_range(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number from 0 to 1"):
        decimal(0, 1)(text)

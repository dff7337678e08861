"""Test the options that commands share."""

from __future__ import annotations

import argparse

import pytest

from kafkalog.cli.shared.client_options import add_repeated, integer, natural


@pytest.mark.parametrize(("text", "value"), [("-2", -2), ("0", 0), ("+127", 127)])
def test_integers(text: str, value: int) -> None:
    assert integer(-2, 8)(text) == value


@pytest.mark.parametrize("text", ["", "1_0", " 1", "1.0", "-3", "128", "9" * 5000])
def test_what_is_no_integer_of_the_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no integer from -2 to 127"):
        integer(-2, 8)(text)


def test_repeated_options() -> None:
    parser = argparse.ArgumentParser()
    add_repeated(parser, "--id", "--number", metavar="N", purpose="a number", kind=natural)
    assert parser.parse_args([]).id == []
    assert parser.parse_args(["--id", "1", "--number", "2"]).id == [1, 2]
    # The default is not shared.
    assert parser.parse_args([]).id == []
    assert "a number; may be repeated" in parser.format_help()

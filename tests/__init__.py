"""Tests; `tests.support` has what the benchmarks share with them."""

"""Tests. The benchmarks use `tests.support`, too."""

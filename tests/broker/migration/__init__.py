"""Tests of `broker.migration`."""

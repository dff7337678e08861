"""Tests of `broker.authorizer`."""

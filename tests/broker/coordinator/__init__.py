"""Tests of the coordinators: where state is stored, and the machines that store it."""

"""Checks of what stands in the sources and pages, and of how tests run."""

"""The command line; `run` is its entry point."""

from __future__ import annotations


def run() -> int:
    """``kafkalog.cli.main.main``, also where Ctrl-C comes before that is imported."""
    try:
        from kafkalog.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130

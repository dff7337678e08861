"""Execute notebooks from top to bottom in a kernel of their own, and keep what they print and plot.

    python notebooks/run.py                               # all notebooks of this directory
    python notebooks/run.py notebooks/quickstart.ipynb    # those that are named
    python notebooks/run.py --check DIR                   # leave the notebooks alone, write executed copies to DIR

Needs nbclient, nbformat and ipykernel (the extra `dev`). A cell that raises ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).resolve().parent
CELL_SECONDS = 300


def execute(notebook: Any, directory: Path) -> None:
    """Run all cells with `directory` as the working directory; outputs replace what the cells had.

    Raises nbclient's CellExecutionError for a cell that raises.
    """
    where = {"metadata": {"path": str(directory)}}
    client = NotebookClient(notebook, timeout=CELL_SECONDS, resources=where, coalesce_streams=True)
    # Whatever kernels are installed for this user: it must be this Python, which has kafkalog.
    client.create_kernel_manager().kernel_spec.argv[0] = sys.executable
    client.execute()


def tidy(notebook: Any) -> None:
    """Without what changes from run to run though the outputs are the same: times of cells, versions."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}


def main(words: Sequence[str] | None = None) -> int:
    """Execute what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description="Execute notebooks and keep their outputs.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of this directory")
    parser.add_argument("--check", type=Path, metavar="DIR", help="write executed copies to DIR instead")
    arguments = parser.parse_args(words)
    for path in arguments.notebooks or sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory(prefix="notebook-") as directory:
            try:
                execute(notebook, Path(directory))
            except CellExecutionError as error:
                print(f"{path.name}: {error}", file=sys.stderr)
                return 1
        tidy(notebook)
        target = path if arguments.check is None else arguments.check / path.name
        nbformat.write(notebook, target)
        print(f"{path.name}: executed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

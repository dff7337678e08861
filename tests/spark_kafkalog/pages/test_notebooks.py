"""Test that each notebook runs from top to bottom in its own kernel, and is saved with its outputs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = pytest.mark.spark

DIRECTORY = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(DIRECTORY.glob("*.ipynb"))
ANY_NOTEBOOK = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)

OF_A_MACHINE = re.compile(r"/(?:home|Users|root|tmp|work|var|private)/")
"""Paths that belong to the machine on which a notebook was run."""


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def kinds(cell: Any) -> list[str]:
    """Return the kind of each output of a cell: the name of a stream, the types of any other."""
    return [
        output.name if output.output_type == "stream" else "+".join(sorted(output.get("data", {"error": ""})))
        for output in cell.outputs
    ]


@ANY_NOTEBOOK
def test_outputs_are_kept_and_tell_nothing_of_a_machine(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run notebooks/run.py"
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", "warnings are no part of a notebook"
            shown = (str(data) for kind, data in output.get("data", {}).items() if kind.startswith("text/"))
            text = output.get("text", "") + "".join(shown)
            assert not OF_A_MACHINE.search(text), text


@pytest.mark.exhaustive
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.timeout(600)
def test_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DIRECTORY / "run.py"), "--check", str(tmp_path), str(notebook)],
        # Enough to run each cell; what is kept was run at the notebook's own scale.
        env=os.environ | {"CAPACITY_ROWS": "40000"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kept, ran = code_cells(notebook), code_cells(tmp_path / notebook.name)
    assert [kinds(cell) for cell in ran] == [kinds(cell) for cell in kept], (
        "run notebooks/run.py and look at the outputs"
    )

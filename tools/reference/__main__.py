"""Write every generated reference page."""

from __future__ import annotations

from pathlib import Path

from tools.reference import api, commands

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Each page's path and text."""
    made = {REFERENCE / "cli.md": commands.render()}
    made.update({REFERENCE / "api" / name: text for name, text in api.render().items()})
    return made


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

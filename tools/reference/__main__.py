"""Write every generated reference page."""

from __future__ import annotations

from pathlib import Path

from tools.reference import api, commands, served_apis

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Return each page's path and text."""
    made = {REFERENCE / "cli.md": commands.render(), REFERENCE / "apis.md": served_apis.render()}
    made.update({REFERENCE / "api" / name: text for name, text in api.render().items()})
    return made


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

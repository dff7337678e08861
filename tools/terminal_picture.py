"""Draw the recording of a terminal as an SVG of one frame.

    script -qec 'stty cols 110; kafkalog quickstart' quickstart.typescript
    python -m tools.terminal_picture quickstart.typescript '$ make quickstart' > docs/images/quickstart.svg

The picture shows the text that the program printed. A line that the program overwrote many times is shown at a few
evenly spaced moments, because a still picture has no other way to show progress. `--replace OLD=NEW` replaces a path
of the machine, as in `--replace "$PWD=/home/me/kafkalog"`. Nothing else is changed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FRAME = re.compile(r"\AScript started on .*?\n|\n?Script done on .*\n?\Z")
_WIDTH, _MARGIN, _LINE, _BAR = 900, 18, 19, 34
_LABEL = re.compile(r"^(  \S[a-zA-Z ]*?\S|\w+)(?=  )")


def lines(recording: str, moments: int) -> Iterator[str]:
    """Yield the recording's lines; of a line that was overwritten, `moments` states and the last one."""
    text = _FRAME.sub("", recording.replace("\r\n", "\n"))
    for line in text.split("\n"):
        states = [_ESCAPES.sub("", state).rstrip() for state in line.split("\r")]
        states = [state for state in states if state]
        if len(states) <= moments + 1:
            yield from states or [""]
            continue
        step = (len(states) - 1) / moments
        chosen = sorted({round(at * step) for at in range(moments + 1)})
        yield from (states[at] for at in chosen)


def draw(shown: Sequence[str], command: str) -> str:
    """Return the picture as SVG."""
    height = _BAR + _LINE * (len(shown) + 1) + _MARGIN
    size = f'width="{_WIDTH}" height="{height}"'
    font = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}" {font}>',
        f'<rect {size} rx="8" fill="#1e2127"/>',
        *(f'<circle cx="{20 + 18 * at}" cy="17" r="5" fill="#4b5263"/>' for at in range(3)),
    ]
    for at, line in enumerate([command, *shown]):
        y = _BAR + _LINE * at + 14
        label = _LABEL.match(line)
        text = escape(line)
        if not at:
            text = f'<tspan fill="#98c379">$</tspan>{escape(line.removeprefix("$"))}'
        elif label:
            text = f'<tspan fill="#61afef">{escape(label[0])}</tspan>{escape(line[label.end() :])}'
        parts.append(f'<text x="{_MARGIN}" y="{y}" xml:space="preserve" fill="#d7dae0">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the recording of a terminal as an SVG.")
    parser.add_argument("recording", type=Path, help="what script(1) wrote")
    parser.add_argument("command", help="the first line, such as '$ make quickstart'")
    parser.add_argument("--moments", type=int, default=4, help="states of a progress line to show (default: 4)")
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW", help="a path to replace")
    arguments = parser.parse_args()
    # Not as text: carriage returns tell which lines were overwritten.
    text = arguments.recording.read_bytes().decode()
    for pair in arguments.replace:
        old, _, new = pair.partition("=")
        text = text.replace(old, new)
    shown = list(lines(text, arguments.moments))
    while shown and not shown[-1]:
        shown.pop()
    print(draw(shown, arguments.command), end="")


if __name__ == "__main__":
    main()

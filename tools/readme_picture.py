"""Draw the end of a real run's log as a terminal window: ``readme_picture.py RUN OUT.svg``."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

STAMP = re.compile(r"^\S+ \S+ rank \d+ [A-Z]+ ")
COMMAND = "$ lightwork train configs/demo.yaml --ranks 2"
LINES, COLUMNS = 22, 100


def main(run: Path, target: Path) -> None:
    """Write an SVG of the last lines of rank 0."""
    lines = [STAMP.sub("", line) for line in (run / "logs/rank0.log").read_text().splitlines()]
    lines = [line.replace(str(run.absolute()), str(run)) for line in lines if line.strip()]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text(COMMAND, style="bold"))
    for line in lines[-LINES:]:
        style = "green" if line.startswith("evaluation") else ""
        console.print(Text(line, style=style))
    console.save_svg(str(target), title="lightwork")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SettingsFile = Annotated[
    Path,
    typer.Argument(metavar="SETTINGS", help="A YAML file of settings, or the folder of a run."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="SECTION.KEY=VALUE", help="Settings that replace those of the file."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes on this machine; otherwise one for each visible GPU, or 1 on the CPU.",
    ),
]
Devices = Annotated[
    str | None,
    typer.Option(metavar="2,3", help="Use only these of the visible GPUs."),
]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

AsJson = Annotated[bool, typer.Option("--json", help="As JSON, with everything that is known.")]

"""``lightwork init``: from a file of questions to settings, and the command that trains."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil
import typer
from rich.console import Console
from rich.text import Text

from lightwork.cli.launching import visible_gpus
from lightwork.errors import SettingsError
from lightwork.planner.new_files import refuse_existing, write_new
from lightwork.planner.wish import Wish
from lightwork.settings import check_files, default_of
from lightwork.telemetry.terminal import terminal

if TYPE_CHECKING:
    from lightwork.planner.first_settings import FirstSettings
    from lightwork.planner.machine import Machine
    from lightwork.planner.summary import Line

_NVIDIA_SMI_TIMEOUT_S = 20
_LABEL_COLUMNS = 10
_WIDEST_COLUMNS = 100

Train = Annotated[
    list[str],
    typer.Option(
        metavar="FILE",
        help="Questions to train on, in any format that is read; may be repeated.",
    ),
]
Dev = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Held-out questions; otherwise a tenth of the training questions."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="A hub name, a folder, package:NAME/folder, or scratch; otherwise one is proposed.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.yaml", help="What to write; otherwise <name of the first FILE>.yaml here."
    ),
]


def _only_dev(files: Sequence[Path]) -> Path:
    if len(files) > 1:
        raise SettingsError(
            f"--dev: the pattern matches {len(files)} files; name one here, and others in "
            "data.dev of the settings"
        )
    return files[0]


def init(train: Train, dev: Dev = None, model: Model = None, out: Out = None) -> None:
    """Look at your data and write settings to begin with."""
    from lightwork.tasks.extractive.formats.hub import on_disk

    cache = Path(default_of("data.cache")).expanduser()
    files = on_disk(check_files("--train", train), cache)
    dev_file = None if dev is None else _only_dev(on_disk(check_files("--dev", [dev]), cache))
    target = Path(f"{files[0].stem}.yaml") if out is None else out.expanduser()
    refuse_existing([target])
    given = train if len(files) == len(train) else [str(file) for file in files]
    wish = Wish(files, given, dev_file, dev or "", model, target)
    refuse_existing(wish.split_files if dev is None else ())
    machine = this_machine()
    with terminal().status("reading and measuring the questions …"):
        from lightwork.planner.first_settings import first_settings
        from lightwork.planner.summary import chosen, found

        first = first_settings(wish, machine)
    write_new(first.contents)
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    written = ", ".join(str(path) for path in first.contents)
    lines = [*found(first, wish), *chosen(first, machine, offline), ("written", written)]
    _tell(lines, _next_commands(target, first))


def this_machine() -> Machine:
    """GPUs, cores and memory, without torch."""
    from lightwork.planner.machine import Machine

    gpus = visible_gpus(os.environ)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        gpus=gpus,
        gpu_bytes=_gpu_bytes() if gpus else None,
        cores=cores or 1,
        memory_bytes=psutil.virtual_memory().available,
    )


def _gpu_bytes() -> int | None:
    """Memory of the smallest GPU here, where nvidia-smi tells it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        listing = subprocess.run(
            [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_NVIDIA_SMI_TIMEOUT_S,
            check=True,
        ).stdout
        return min(int(line) for line in listing.splitlines()) << 20  # it counts MiB
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _next_commands(target: Path, first: FirstSettings) -> list[tuple[str, str]]:
    """Commands to copy, and what each is for."""
    train = f"lightwork train {shlex.quote(str(target))} --ranks {first.proposal.ranks}"
    commands = [
        (f"{train} --dry-run", "to see that everything fits, before training"),
        (train, "to train; the same command goes on after an interruption"),
    ]
    if first.model.kind == "download":
        scratch = "model.source=scratch train.learning_rate=1e-3"
        commands.append((f"{train} {scratch}", "to try it out without any download"))
    return commands


def _tell(lines: Sequence[Line], commands: Sequence[tuple[str, str]]) -> None:
    """Labelled lines and commands on standard output; styled on a terminal."""
    console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
    width = min(console.width if console.is_terminal else _WIDEST_COLUMNS, _WIDEST_COLUMNS)
    for label, text in lines:
        pieces = textwrap.wrap(
            text, max(width - _LABEL_COLUMNS, 30), break_long_words=False, break_on_hyphens=False
        )
        for number, piece in enumerate(pieces):
            shown = label if number == 0 else ""
            console.print(Text.assemble((f"{shown:<{_LABEL_COLUMNS}}", "bold"), piece))
    console.print(Text("\nnext", style="bold"))
    for command, purpose in commands:
        console.print(Text(f"  # {purpose}", style="dim"))
        console.print(Text(f"  {command}"))

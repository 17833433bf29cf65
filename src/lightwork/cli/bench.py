"""``lightwork bench``: what this machine and its lines can do, measured with the model at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lightwork.cli.arguments import AsJson, Devices, Ranks
from lightwork.cli.launching import is_rank, ranks_here, refuse_ranks, with_devices
from lightwork.cli.momentary import as_rank, start_for_the_moment
from lightwork.errors import RunError
from lightwork.settings import Settings, check_paths, default_of, load_settings, locate

SECONDS = 20.0
SAMPLE = (
    "model.source=scratch",
    "model.scratch_layers=2",
    "model.scratch_width=128",
    "model.scratch_heads=4",
    "model.scratch_vocabulary=1000",
    "data.max_length=80",
    "data.stride=24",
    "data.max_question_length=20",
)
"""Without SETTINGS: the small model of the demo, on the built-in sample."""

Given = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTINGS|SECTION.KEY=VALUE",
        help="As for train; without SETTINGS, a small model on the built-in sample.",
    ),
]
Seconds = Annotated[
    float, typer.Option(min=1.0, metavar="S", help="How long to measure, about, after the start.")
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE.html", help="Write bars and table there as well.")
]

bench = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Measure what the ranks here can do."
)


@bench.callback()
def _bench() -> None:
    """With one command it is still a group."""


@bench.command()
def sync(
    given: Given = None,
    ranks: Ranks = None,
    devices: Devices = None,
    seconds: Seconds = SECONDS,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Compare the ways to exchange gradients, for your model on your ranks, and advise."""
    settings, found = _settings(given or [])
    check_paths(settings)
    if plot is not None:
        plot = _writable(plot)
    environ = with_devices(devices, os.environ)

    def do(folder: Path) -> None:
        from lightwork.assembly import run_bench_sync

        run_bench_sync(settings, folder, seconds, as_json, plot)

    if is_rank(environ):
        refuse_ranks(ranks, environ)
        as_rank("bench", found, do)
        return
    count = ranks_here(ranks, settings.launch.device, environ)
    if count == 1:
        _say_nothing(as_json)
        return

    def words(folder: Path) -> list[str]:
        shown = [] if plot is None else ["--plot", str(plot)]
        shown += ["--json"] if as_json else []
        return ["bench", "sync", str(folder), f"--seconds={seconds}", *shown]

    raise typer.Exit(start_for_the_moment("bench", words, settings, count, environ))


def _settings(given: list[str]) -> tuple[Settings, Path | None]:
    """Those of the file or run folder that comes first, if one does, and the folder."""
    if given and ("=" not in given[0] or Path(given[0]).exists()):
        file, found = locate(Path(given[0]))
        return load_settings(file, given[1:]), found
    from lightwork.tasks.extractive.sample import write_sample

    folder = Path(default_of("data.cache")).expanduser() / "sample"
    try:
        train, _ = write_sample(folder)
    except OSError as error:
        raise RunError(
            f"cannot write the built-in sample to {folder}: {error.strerror}; delete that folder, "
            "or give SETTINGS"
        ) from None
    return load_settings(None, [f"data.train={train}", *SAMPLE, *given]), None


def _writable(plot: Path) -> Path:
    path = plot.expanduser().absolute()
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        raise RunError(f"--plot {plot} {what}; name a file, as in --plot exchange.html")
    return path


def _say_nothing(as_json: bool) -> None:
    """What the ranks would say if there were one."""
    from lightwork.report.exchange import nothing

    typer.echo(nothing(as_json))

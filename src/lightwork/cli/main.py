"""The table of commands, and how each of them ends."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from lightwork import __version__
from lightwork.cli.answer import answer
from lightwork.cli.bench import bench
from lightwork.cli.checkpoints import checkpoints
from lightwork.cli.data import data
from lightwork.cli.evaluate import evaluate
from lightwork.cli.explain import explain
from lightwork.cli.export import export
from lightwork.cli.failures import INTERRUPTED, failures_named
from lightwork.cli.init import init
from lightwork.cli.launch import launch
from lightwork.cli.list_runs import list_runs
from lightwork.cli.logs import logs
from lightwork.cli.prepare import prepare
from lightwork.cli.sample import sample
from lightwork.cli.score import score
from lightwork.cli.train import train
from lightwork.cli.verify import verify
from lightwork.comm.parent import die_with_parent
from lightwork.comm.phases import open_slot
from lightwork.comm.told import tell
from lightwork.errors import LightworkError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(init)
app.command()(sample)
app.command()(data)
app.command()(prepare)
app.command()(verify)
app.command()(train)
app.command()(evaluate)
app.command()(answer)
app.command()(score)
app.command("list")(list_runs)
app.command()(checkpoints)
app.command()(explain)
app.command()(logs)
app.command()(export)
app.add_typer(bench, name="bench")
app.command(context_settings={"allow_interspersed_args": False})(launch)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"lightwork {__version__}")
        raise typer.Exit


@app.callback()
def lightwork(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train question-answering models on several GPUs: many cards make light work."""


def run() -> None:
    """The program: one command, an exit code, and at most one message over all ranks."""
    die_with_parent(os.environ)
    open_slot(os.environ)
    try:
        with failures_named(None):
            app(prog_name="lightwork")
    except LightworkError as error:
        tell(f"error: {error}", os.environ, error.joint, error.repeats)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

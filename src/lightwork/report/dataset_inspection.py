"""Files of questions -> everything that can be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightwork.errors import SettingsError
from lightwork.report.dataset import Mending, overlap, set_facts
from lightwork.report.dataset_outcome import DatasetReport
from lightwork.report.dataset_tokens import character_lengths, tokenised
from lightwork.report.dataset_windows import Batching, window_facts
from lightwork.report.dataset_writing import write_squad
from lightwork.settings import default_of
from lightwork.tasks.extractive.examples import Examples
from lightwork.tasks.extractive.formats.hub import on_disk
from lightwork.tasks.extractive.gold import OnMismatch
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.windows import WindowOptions, check_options
from lightwork.telemetry.progress import counting


@dataclass(frozen=True)
class Windowing:
    """How tokens and windows are to be counted."""

    source: str
    """Of the model, as in ``model.source``."""
    options: WindowOptions
    batching: Batching


def inspect(
    train: Sequence[Path],
    dev: Sequence[Path],
    *,
    on_mismatch: OnMismatch,
    windowing: Windowing | None = None,
    target: Path | None = None,
) -> DatasetReport:
    """Read ``train`` and ``dev``, count, and write ``train`` to ``target`` where there is one.

    A file may be a data set of the hub, ``hub:OWNER/NAME#SPLIT``, as in the settings.

    Misplaced answers and repeated ids stop nothing here. Raises ``DataError`` for files that cannot
    be read, ``SettingsError`` for a model that cannot be had or sizes that leave no room or are
    more than it takes, and what :func:`write_squad` raises.
    """
    tokenizer = None if windowing is None else _tokenizer(windowing)
    read = _read(train, on_mismatch)
    facts = set_facts(train, read)
    held_out = _read(dev, "drop") if dev else None
    tokens = None
    if tokenizer is not None:
        with counting("tokenising") as progress:
            tokens = tokenised(read, tokenizer, progress)
    return DatasetReport(
        train=facts,
        lengths_characters=character_lengths(read),
        dev=None if held_out is None else set_facts(dev, held_out),
        overlap=None if held_out is None else overlap(read, held_out),
        mending=_mending(train, facts.misplaced_answers, read if on_mismatch == "repair" else None),
        model=None if windowing is None else windowing.source,
        lengths_tokens=None if tokens is None else tokens.lengths(),
        windows=(
            None
            if tokens is None or windowing is None
            else window_facts(tokens, windowing.options, windowing.batching)
        ),
        written=None if target is None else write_squad(target, read),
    )


def _tokenizer(windowing: Windowing) -> Any:
    from lightwork.tasks.extractive.pretrained import SCRATCH, resolve_source
    from lightwork.tasks.extractive.tokenizer import load_tokenizer

    if windowing.source == SCRATCH:
        raise SettingsError(
            "--model: a scratch model has no tokenizer before it is trained; name a model that "
            "has one, or leave --model out to count characters"
        )
    tokenizer = load_tokenizer(resolve_source(windowing.source))
    check_options(tokenizer, windowing.options)
    _check_length(windowing, len(tokenizer))
    return tokenizer


def _check_length(windowing: Windowing, vocabulary: int) -> None:
    """Refuse windows that the model has no positions for, as training does; it gets no weights."""
    import torch

    from lightwork.tasks.extractive.model import ScratchShape, build_model, check_length

    with torch.device("meta"):
        model = build_model(
            windowing.source,
            dropout=None,
            weights=False,
            scratch=ScratchShape(),
            vocabulary=vocabulary,
        )
    check_length(model, windowing.options.max_length)


def _read(files: Sequence[Path], on_mismatch: OnMismatch) -> Examples:
    cache = Path(default_of("data.cache")).expanduser()
    with counting(f"reading {', '.join(file.name for file in files)}") as progress:
        return read_examples(
            on_disk(files, cache), on_mismatch=on_mismatch, on_repeated="number", progress=progress
        )


def _mending(files: Sequence[Path], misplaced: int, repaired: Examples | None) -> Mending | None:
    """What repairing does; the files are read once more only where there is something to mend."""
    if not misplaced:
        return None
    summary = (repaired or _read(files, "repair")).summary
    return Mending(summary.get("repaired_answers", 0), summary.get("misplaced_answers", 0))

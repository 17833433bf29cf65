"""Data files to stores of tokenised windows, once, before any group of ranks exists."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers

from lightwork.data.once import build_once, content_key
from lightwork.data.store import FORMAT, Store, StoreWriter
from lightwork.disk import file_digest
from lightwork.errors import DataError
from lightwork.settings import Settings
from lightwork.tasks.extractive.examples import NOTES, noted
from lightwork.tasks.extractive.formats.hub import on_disk
from lightwork.tasks.extractive.model import load_tokenizer, resolve_source, train_tokenizer
from lightwork.tasks.extractive.reading import read_examples, texts
from lightwork.tasks.extractive.windows import WindowOptions, check_options, write_windows
from lightwork.telemetry.logs import logging_to
from lightwork.telemetry.progress import counting

log = logging.getLogger("lightwork")

SCRATCH = "scratch"

COUNTED = ("examples", "contexts", "answers", "impossible", "windows")
"""What a summary begins with; every other count is a line with its phrase."""


@dataclass(frozen=True)
class Prepared:
    """What training reads."""

    tokenizer: Any
    train: Store
    dev: Store | None


def run_prepare(settings: Settings) -> None:
    """Make the stores and say what is in them."""
    with logging_to(None, rank=0):
        prepared = prepare(settings)
        for name, store in (("training", prepared.train), ("held-out", prepared.dev)):
            if store is not None:
                log.info("%s: %s", name, store.path)


def prepare(settings: Settings) -> Prepared:
    """The tokenizer and the stores, made now unless an earlier call made them."""
    tokenizer = _tokenizer(settings)
    data = settings.data
    train = prepare_store(settings, tokenizer, data.train, training=True)
    _say_summary("training", train)
    dev = None
    if data.dev:
        dev = prepare_store(settings, tokenizer, data.dev, training=False)
        _say_summary("held-out", dev)
        _warn_of_training_files(data.dev, train, dev)
    return Prepared(tokenizer, train, dev)


def prepare_store(
    settings: Settings, tokenizer: Any, files: Sequence[Path], *, training: bool
) -> Store:
    """The store of these files. Its name changes with everything that changes its content."""
    data = settings.data
    options = WindowOptions(data.max_length, data.stride, data.max_question_length)
    check_options(tokenizer, options)
    files = on_disk(files, data.cache)
    digests = _digests(files)
    # Scoring compares texts, as the official scripts do: a misplaced answer counts there.
    limit, on_mismatch = (data.limit, data.on_mismatch) if training else (None, "drop")
    key = content_key(
        files=digests,
        tokenizer=_tokenizer_digest(tokenizer),
        tokenizers=tokenizers.__version__,
        options=asdict(options),
        limit=limit,
        on_mismatch=on_mismatch,
        training=training,
        format=FORMAT,
    )
    path = data.cache / "stores" / f"{key}.safetensors"

    def build(temporary: Path) -> None:
        examples = read_examples(files, limit=limit, on_mismatch=on_mismatch)
        told = f"tokenising {', '.join(file.name for file in files)}"
        with counting(told) as progress, StoreWriter(temporary) as writer:
            cut = write_windows(
                examples, tokenizer, options, writer.append, training=training, progress=progress
            )
            facts = {
                "summary": {**examples.summary, **cut.summary},
                "listed": {**examples.listed, **cut.listed},
                "impossible": examples.no_answer,
                "files": digests,
            }
            writer.finish(facts)

    build_once(path, build, log.info)
    return Store(path)


def _tokenizer(settings: Settings) -> Any:
    model, data = settings.model, settings.data
    if model.source != SCRATCH:
        return load_tokenizer(resolve_source(model.source))
    files = on_disk(data.train, data.cache)
    key = content_key(
        files=_digests(files),
        limit=data.limit,
        vocabulary=model.scratch_vocabulary,
        tokenizers=tokenizers.__version__,
    )
    folder = data.cache / "tokenizers" / key

    def build(temporary: Path) -> None:
        examples = read_examples(files, limit=data.limit, on_mismatch=data.on_mismatch)
        train_tokenizer(texts(examples), model.scratch_vocabulary, temporary)

    build_once(folder, build, log.info)
    return load_tokenizer(str(folder))


def _digests(files: Sequence[Path]) -> list[str]:
    try:
        return [file_digest(file) for file in files]
    except OSError as error:
        raise DataError(f"cannot read {error.filename} ({error.strerror})") from error


def _warn_of_training_files(files: Sequence[Path], train: Store, dev: Store) -> None:
    """Scores of questions that were learned say nothing."""
    for file, digest in zip(files, dev.facts["files"], strict=True):
        if digest in train.facts["files"]:
            log.warning("data.dev: %s is a training file too, so its scores say nothing", file)


def _tokenizer_digest(tokenizer: Any) -> str:
    """Of everything in a tokenizer that can change a window."""
    facts = [
        tokenizer.backend_tokenizer.to_str(),
        sorted(tokenizer.model_input_names),
        tokenizer.padding_side,
        str(tokenizer.cls_token_id),
    ]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _say_summary(name: str, store: Store) -> None:
    """One line of counts, and one for every kind of example that is not simply learned."""
    summary: dict[str, int] = store.facts["summary"]
    listed: dict[str, list[str]] = store.facts["listed"]
    counts = ", ".join(f"{summary[what]:,} {what}" for what in COUNTED if what in summary)
    log.info("%s data: %s", name, counts)
    for what, phrase in NOTES.items():
        total = summary.get(what)
        if total and what not in COUNTED:
            ids = listed.get(what, [])
            more = ", …" if total > len(ids) > 0 else ""
            names = f": {', '.join(ids)}{more}" if ids else ""
            log.info("  %s%s", noted(total, phrase), names)

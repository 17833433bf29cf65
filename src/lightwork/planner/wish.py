"""What a person asks ``lightwork init`` for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wish:
    """What a person asked for; files are absolute, beside them as they were given."""

    train: Sequence[Path]
    train_given: Sequence[str]
    dev: Path | None
    dev_given: str
    model: str | None
    target: Path
    """The settings file to be written."""

    @property
    def split_files(self) -> tuple[Path, Path]:
        """Where training and held-out questions go when they are split here."""
        stem = self.target.stem
        return self.target.with_name(f"{stem}.train.json"), self.target.with_name(
            f"{stem}.dev.json"
        )

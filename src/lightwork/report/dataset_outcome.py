"""All that is found out about files of questions, and what training would do with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lightwork.report.dataset import REPEATED_IDS, Mending, Overlap, SetFacts
from lightwork.report.dataset_tokens import Lengths
from lightwork.report.dataset_windows import WindowFacts
from lightwork.report.dataset_writing import Written
from lightwork.tasks.extractive.examples import noted


@dataclass(frozen=True)
class DatasetReport:
    """What ``lightwork data`` tells; None is what was not asked for or needs no word."""

    train: SetFacts
    lengths_characters: Lengths
    dev: SetFacts | None = None
    overlap: Overlap | None = None
    mending: Mending | None = None
    """None where every answer is at its place."""
    model: str | None = None
    lengths_tokens: Lengths | None = None
    windows: WindowFacts | None = None
    written: Written | None = None

    @property
    def stops(self) -> list[str]:
        """Why training on these files stops as they are, each with what to do."""
        return [*self._mended_by_writing(), *self.stops_when_written]

    @property
    def stops_when_written(self) -> list[str]:
        """Those that stay with what ``--write`` writes in place of the training files."""
        reasons = []
        if self.dev is not None:
            reasons += _repeated("held-out", self.dev, "give each its own")
        if not self.train.questions_trainable:
            reasons.append("no question can be trained on")
        elif self.windows is not None and not self.windows.trained_windows:
            reasons.append("no window holds a whole answer; raise data.max_length")
        return reasons

    def _mended_by_writing(self) -> list[str]:
        reasons = []
        if self.mending is not None:
            mended, dropped = self.mending.mended_answers, self.mending.dropped_answers
            reasons.append(
                f"{noted(self.train.misplaced_answers, 'gold answers')} not at the answer_start "
                f"given; data.on_mismatch=repair moves {mended:,} to the only place where the "
                f"text stands, and leaves {dropped:,} unlearned"
            )
        return reasons + _repeated("training", self.train, "--write OUT gives each its own")

    def as_json(self) -> dict[str, Any]:
        """Everything, under stable names with units."""
        return {**asdict(self), "stops": self.stops}


def _repeated(name: str, facts: SetFacts, advice: str) -> list[str]:
    repeated = facts.noticed.get(REPEATED_IDS)
    if repeated is None:
        return []
    questions = noted(repeated.count, f"{name} questions")
    return [f"{questions} with the id of an earlier one; {advice}"]

"""All that is found out about files of questions, and what training would do with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lightwork.report.dataset import REPEATED_IDS, Mending, Overlap, SetFacts
from lightwork.report.dataset_tokens import Lengths
from lightwork.report.dataset_windows import WindowFacts
from lightwork.report.dataset_writing import Written


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
        reasons = []
        if self.mending is not None:
            mended, dropped = self.mending.mended_answers, self.mending.dropped_answers
            reasons.append(
                f"{self.train.misplaced_answers:,} gold answers are not at their answer_start; "
                f"data.on_mismatch=repair would mend {mended:,}, drop {dropped:,}"
            )
        for name, facts in (("training", self.train), ("held-out", self.dev)):
            repeated = facts.noticed.get(REPEATED_IDS) if facts else None
            if repeated:
                reasons.append(
                    f"{repeated.count:,} {name} questions have the id of an earlier one; --write "
                    "OUT gives each its own"
                )
        if not self.train.questions_trainable:
            reasons.append("no question can be trained on")
        elif self.windows is not None and not self.windows.trained_windows:
            reasons.append("no window holds a whole answer; raise data.max_length")
        return reasons

    def as_json(self) -> dict[str, Any]:
        """Everything, under stable names with units."""
        return {**asdict(self), "stops": self.stops}

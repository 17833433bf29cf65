"""All settings of a run. Each stands in a section, with type, range, default, kind and help.

The kind says what a change of the setting touches:

* ``identity``: what is learned; another value is another run,
* ``machine``: where and how fast it is learned; a run may continue with another value,
* ``reporting``: what is measured and written down on the way.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import PrivateAttr, model_validator

from lightwork.settings.kinds import Section
from lightwork.settings.learning import (
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    TrainSettings,
)
from lightwork.settings.running import (
    CheckpointSettings,
    LaunchSettings,
    SyncSettings,
    TelemetrySettings,
)


class Settings(Section):
    """All settings of one run, with absolute paths."""

    data: DataSettings
    model: ModelSettings
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    sync: SyncSettings = SyncSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    launch: LaunchSettings = LaunchSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @model_validator(mode="after")
    def _patience_has_scores(self) -> Settings:
        if self.train.patience is not None and not self.data.dev:
            raise ValueError(
                f"train.patience is {self.train.patience}, but without data.dev there are no "
                "scores to wait for; name a file of held-out questions in data.dev"
            )
        return self

    @model_validator(mode="after")
    def _compiled_sums_have_no_order(self) -> Settings:
        if self.train.compile and self.sync.strategy == "tree":
            raise ValueError(
                "train.compile is true and sync.strategy is tree: compiled code adds up in orders "
                "of its own and draws other random numbers, so equal bits cannot be promised; set "
                "train.compile=false, or sync.strategy=all_reduce"
            )
        return self

    _given: dict[str, str] = PrivateAttr(default_factory=dict)
    """Paths as they were written, by their absolute form; for messages only."""

    def __eq__(self, other: object) -> bool:
        """Equal values; how a path was written does not matter."""
        return isinstance(other, Settings) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        """Equal settings have equal hashes."""
        return hash(self.model_dump_json())

    def as_given(self, path: Path | str) -> str:
        """``path`` as it was written in the settings file or on the command line."""
        return self._given.get(str(path), str(path))

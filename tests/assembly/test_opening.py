"""A start of a run: all ranks find the folder that rank 0 writes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.assembly import opening
from lightwork.comm.group import Group
from lightwork.errors import LaunchError
from lightwork.settings import RunRecord, Settings, load_settings, open_run, run_id_of
from tests.ranks import run_as_threads


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "train.json").write_text("{}")
    (tmp_path / "s.yaml").write_text(
        f"data: {{train: {tmp_path}/train.json}}\nmodel: {{source: scratch}}\n"
    )
    return load_settings(tmp_path / "s.yaml", [])


def opened(group: Group, settings: Settings, run: Path) -> RunRecord:
    record = opening.begin(group, settings, run, "cpu")
    opening.check_storage(group, run, record.run_id)
    return record


@pytest.mark.parametrize("other", ["empty", "another run"])
def test_a_rank_with_another_storage_is_found_out(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr(opening, "STORAGE_PATIENCE_S", 0.3)
    for machine in (0, 1):
        (tmp_path / f"{machine}/run").mkdir(parents=True)
    if other == "another run":
        open_run(tmp_path / "1/run", settings)

    def begin(group: Group) -> str:
        with pytest.raises(LaunchError) as caught:
            opened(group, settings, tmp_path / f"{group.rank}/run")
        return str(caught.value).partition(" does not find the run folder")[0]

    assert run_as_threads(2, begin) == ["rank 1", "rank 1"]


def test_a_slow_one_is_waited_for(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    looks = []
    seen = run_id_of

    def late(folder: Path) -> str | None:
        looks.append(folder)
        return seen(folder) if len(looks) > 2 else None

    monkeypatch.setattr(opening, "run_id_of", late)
    records = run_as_threads(2, lambda group: opened(group, settings, run))
    assert isinstance(records[0], RunRecord)
    assert records[0] == records[1]

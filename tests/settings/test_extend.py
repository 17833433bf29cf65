"""``--extend``: a run may become longer, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import RunError
from lightwork.settings import open_run, read_run
from tests.settings.given import load

LONG = ("train.epochs=3", "train.max_steps=10")


def test_what_is_longer_is_taken_over_and_stays(folder: Path) -> None:
    run = folder / "run"
    first = open_run(run, load(*LONG))
    longer = load("train.epochs=5")
    record = open_run(run, longer, extend=True)
    assert record.run_id == first.run_id
    assert (record.identity["train.epochs"], record.identity["train.max_steps"]) == (5, None)
    assert read_run(run) == record
    assert open_run(run, longer) == record, "the same command without --extend goes on"
    assert open_run(run, longer, extend=True) == record, "and with it"
    assert "epochs: 5" in (run / "settings.yaml").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("train.epochs=2", "train.max_steps=10"), "has 3 train.epochs and 2 was given; give more"),
        (
            ("train.epochs=3", "train.max_steps=9"),
            "has 10 train.max_steps and 9 was given; give more",
        ),
        (
            ("train.epochs=3", "train.max_steps=10", "train.patience=2", "data.dev=d.json"),
            "has no train.patience and 2 was given; leave it out",
        ),
        (("train.epochs=5", "train.learning_rate=1e-4"), "train.learning_rate: 3e-05 became"),
    ],
)
def test_anything_else_is_refused(folder: Path, given: tuple[str, ...], said: str) -> None:
    run = folder / "run"
    before = open_run(run, load(*LONG))
    with pytest.raises(RunError, match=said):
        open_run(run, load(*given), extend=True)
    assert read_run(run) == before


def test_without_it_a_longer_run_is_another_one_and_the_way_is_told(folder: Path) -> None:
    open_run(folder / "run", load(*LONG))
    with pytest.raises(RunError, match=r"belongs to a shorter run .* make it longer with --extend"):
        open_run(folder / "run", load("train.epochs=3", "train.max_steps=11"))
    with pytest.raises(RunError, match="with other settings"):
        open_run(folder / "run", load("train.epochs=2", "train.max_steps=11"))


def test_there_must_be_a_run(folder: Path) -> None:
    with pytest.raises(RunError, match="holds no run that --extend could make longer"):
        open_run(folder / "run", load(*LONG), extend=True)
    assert not (folder / "run").exists()


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_run(folder / "run", load(*LONG))

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_run(folder / "run", load("train.epochs=5"), extend=True)
    monkeypatch.undo()
    assert sorted(path.name for path in (folder / "run").iterdir()) == ["run.json", "settings.yaml"]
    assert read_run(folder / "run") == before

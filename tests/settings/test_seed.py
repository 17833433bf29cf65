"""``train.seed``: a whole number, or ``random`` until a run is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import SettingsError
from lightwork.settings import (
    Settings,
    identity,
    is_random,
    load_settings,
    numbered,
    open_run,
    read_run,
    seeded,
    to_yaml,
)

MINIMAL = "data:\n  train: train.json\nmodel:\n  source: scratch\ntrain:\n  seed: {}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.json").write_text("x")


def load(seed: str) -> Settings:
    Path("s.yaml").write_text(MINIMAL.format(seed))
    settings = load_settings(Path("s.yaml"))
    assert load_settings(Path("s.yaml"), [f"train.seed={seed}"]) == settings
    return settings


def test_it_is_random_until_it_is_drawn() -> None:
    settings = load("random")
    assert is_random(settings)
    assert "  seed: random\n" in to_yaml(settings)
    assert identity(settings)["train.seed"] == "random"
    first, second = (numbered(settings, {}) for _ in range(2))
    assert not is_random(first)
    assert 0 <= first.train.seed < 1 << 32
    assert first.train.seed != second.train.seed, "but for one chance in four billion"
    assert is_random(settings), "settings never change"
    assert first == load(str(first.train.seed))
    assert first.as_given(Path.cwd() / "train.json") == "train.json"
    Path("again.yaml").write_text(to_yaml(first))
    assert load_settings(Path("again.yaml")) == first


def test_a_number_stays() -> None:
    settings = load("7")
    assert numbered(settings, {"train.seed": 8}) is settings
    assert numbered(load("random"), {"train.seed": 0}).train.seed == 0


def test_a_run_keeps_what_was_drawn_when_it_was_opened() -> None:
    settings, run = load("random"), Path("run")
    drawn = open_run(run, settings).identity["train.seed"]
    assert type(drawn) is int
    assert open_run(run, settings).identity["train.seed"] == drawn
    assert seeded(settings, run).train.seed == drawn
    assert read_run(run).identity["train.seed"] == drawn
    assert load_settings(run / "settings.yaml").train.seed == drawn
    assert seeded(settings, Path("other")).train.seed != drawn
    assert seeded(settings, None).train.seed != drawn


@pytest.mark.parametrize("given", ["Random", "rand", "-1", "4294967296", "1.5", "012", ""])
def test_what_it_cannot_be(given: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(given)
    assert "allowed: random or a whole number from 0 to 4294967295" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "seed"), [("0", 0), ("4294967295", 2**32 - 1), ("1e3", 1000), ("1_000", 1000)]
)
def test_numbers_that_it_can_be(given: str, seed: int) -> None:
    assert load(given).train.seed == seed

"""Data sets of the hub become files of rows, once; the hub itself is not needed for these tests."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from lightwork.errors import DataError
from lightwork.tasks.extractive.examples import Answer
from lightwork.tasks.extractive.formats.hub import fetch, is_hub
from lightwork.tasks.extractive.reading import read_examples

datasets = pytest.importorskip("datasets")
hub = pytest.importorskip("huggingface_hub")

NAME = "hub:owner/set"
ROWS: dict[str, list[Any]] = {
    "id": ["q1", "q2"],
    "title": ["shop", "shop"],
    "context": ["Ada runs it. 林", "Ada runs it. 林"],
    "question": ["Who?", "Why?"],
    "answers": [{"text": ["林"], "answer_start": [13]}, {"text": [], "answer_start": []}],
}


class Hub:
    """Stands for ``load_dataset``: gives ``ROWS`` and remembers what it was asked for."""

    def __init__(self, rows: dict[str, list[Any]]) -> None:
        self.rows = rows
        self.calls: list[tuple[Any, ...]] = []
        self.state: list[Any] = []

    def load_dataset(self, path: str, name: str | None, *, split: str, cache_dir: str) -> Any:
        assert Path(cache_dir).is_dir()
        self.calls.append((path, name, split))
        self.state.append(switches())
        return datasets.Dataset.from_dict(self.rows)


def switches() -> list[Any]:
    """What is quiet while a data set is fetched, and as it was afterwards."""
    return [
        datasets.utils.are_progress_bars_disabled(),
        hub.utils.are_progress_bars_disabled(),
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS,
        logging.getLogger("huggingface_hub.utils").isEnabledFor(logging.WARNING),
    ]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub that is never asked over the network."""
    made = Hub(ROWS)
    monkeypatch.setattr(datasets, "load_dataset", made.load_dataset)
    return made


def left_in(cache: Path) -> list[Path]:
    """Files but for the empty ones that processes lock."""
    files = [path for path in cache.rglob("*") if path.is_file()]
    return [path for path in files if path.suffix != ".lock" or path.stat().st_size]


def refused(name: str, cache: Path) -> str:
    """The one line that fetching ends with, after which nothing is left in the cache."""
    with pytest.raises(DataError) as caught:
        fetch(name, cache)
    assert "\n" not in str(caught.value)
    assert left_in(cache) == []
    return str(caught.value)


def test_names() -> None:
    assert is_hub("hub:owner/set")
    assert not is_hub("owner/set.json")
    assert not is_hub("/data/hub:owner")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hub:owner/set", ("owner/set", None, "train")),
        ("hub:owner/set#validation", ("owner/set", None, "validation")),
        ("hub:owner/set/xquad.zh#test", ("owner/set", "xquad.zh", "test")),
        ("hub:owner/set#validation[:10%]", ("owner/set", None, "validation[:10%]")),
    ],
)
def test_a_data_set_is_fetched_once_and_read(
    tmp_path: Path, fake: Hub, name: str, asked: tuple[Any, ...]
) -> None:
    before = switches()
    path = fetch(name, tmp_path)
    assert fetch(name, tmp_path) == path
    assert fake.calls == [asked]
    assert fake.state == [[True, True, False, False]]
    assert switches() == before
    read = read_examples([path])
    assert [item.answers for item in read] == [(Answer("林", 13),), ()]
    assert [item.question for item in read] == ["Who?", "Why?"]
    assert left_in(tmp_path) == [path], "nothing else is left in the cache"


def test_every_name_has_its_own_file_in_the_cache(tmp_path: Path, fake: Hub) -> None:
    names = ["owner/set", "owner/set#test", "owner/set/test", "owner-set/test", "Owner/set"]
    paths = {fetch(f"hub:{name}", tmp_path) for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path / "hub"}


@pytest.mark.parametrize(
    "name",
    [
        "hub:",
        "hub:set",
        "hub:a/b/c/d",
        "hub:a/b#",
        "hub:a/b#x y",
        "hub:a b/c",
        "hub:a\n/b",
        "hub:../..",
        "hub:a/..",
    ],
)
def test_a_name_that_is_none(tmp_path: Path, fake: Hub, name: str) -> None:
    assert "expected hub:OWNER/NAME[/CONFIG][#SPLIT]" in refused(name, tmp_path)
    assert not fake.calls


def test_a_data_set_without_the_columns_is_refused(tmp_path: Path, fake: Hub) -> None:
    fake.rows = {"question": ["1 + 1?"], "answer": ["2"]}
    assert "found question, answer" in refused(NAME, tmp_path)
    fake.rows = {**ROWS, "id": [b"q1", b"q2"]}
    assert "neither text nor numbers" in refused(NAME, tmp_path)


def test_a_folder_of_the_same_name_is_not_taken_for_it(
    tmp_path: Path, fake: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owner" / "set").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "owner/set is also a folder here" in refused(NAME, tmp_path / "cache")
    assert not fake.calls


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("Couldn't reach it\non the Hub"),
        ValueError('Unknown split "tran"'),
        RuntimeError("Dataset scripts are no longer supported"),
        datasets.exceptions.DatasetNotFoundError("does not exist"),
        datasets.exceptions.DatasetGenerationError("broken"),
    ],
)
def test_what_fails_on_the_hub_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", fail)
    message = refused(NAME, tmp_path)
    assert " ".join(str(error).split()) in message
    assert message.startswith("hub:owner/set: the hub gave no such data set (")


def test_without_a_network_the_real_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    assert "the hub gave no such data set" in refused("hub:nobody/no-such-set", tmp_path / "cache")
    assert capfd.readouterr() == ("", "")


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'lightwork[tables]'" in refused(NAME, tmp_path)


def test_code_of_a_data_set_is_never_trusted(
    tmp_path: Path, fake: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = []

    def load(path: str, name: Any, *, trust_remote_code: Any = None, **more: Any) -> Any:
        trusted.append(trust_remote_code)
        return fake.load_dataset(path, name, **more)

    monkeypatch.setattr(datasets, "load_dataset", load)
    fetch(NAME, tmp_path)
    assert trusted == [False]

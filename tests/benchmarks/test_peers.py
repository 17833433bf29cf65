"""The race in miniature: the same windows and answers for all, and every contender learns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.adapters.answers import write_answers
from benchmarks.adapters.features import Features, tokenise
from benchmarks.adapters.spec import Request, Spec
from benchmarks.contenders import CONTENDERS, choose, write_lightwork_settings
from benchmarks.preparing import chosen, prepare, squad
from benchmarks.racing import race
from lightwork.errors import DataError, LightworkError
from lightwork.settings import check_paths, load_settings
from lightwork.tasks.extractive.model import load_tokenizer
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.benchmarks.conftest import Course

OPTIONS = WindowOptions(max_length=80, stride=8, max_question_length=64)


def request_for(course: Course, folder: Path, windows: int | None) -> Request:
    return Request(
        folder=str(folder),
        model=str(course.model),
        train_file=str(course.train),
        dev_file=str(course.dev),
        windows=windows,
        layers=None,
        seed=1,
        max_length=80,
        stride=8,
    )


def spec_in(folder: Path, **more: Any) -> Spec:
    """A spec whose files need not exist."""
    path = str(folder)
    names = ("model", "train_file", "dev_file", "train_windows", "dev_windows")
    paths = dict.fromkeys((*names, "cache", "out"), path)
    given: dict[str, Any] = {
        **paths,
        "dev_examples": str(folder / "dev_examples.json"),
        "windows": 20,
        **more,
    }
    return Spec(**given)


@pytest.mark.parametrize("training", [True, False])
def test_peers_compute_the_very_windows_that_lightwork_does(
    course: Course, tmp_path: Path, training: bool
) -> None:
    tokenizer = load_tokenizer(str(course.model))
    if training:
        examples, features = chosen(request_for(course, tmp_path, 60), tokenizer)
        assert len(examples) == 60
        again = tmp_path / "train.json"
        again.write_text(squad(examples))
        examples = read_examples([again]).items
    else:
        examples = read_examples([course.dev]).items
        features = tokenise(tokenizer, examples, 80, 8)
        assert len(features.example) > len(examples), "some contexts need two windows"
    path = tmp_path / "windows.npz"
    features.save(path)
    found = Features.load(str(path))
    source = tmp_path / "train.json" if training else course.dev
    columns = build_windows(read_examples([source]), tokenizer, OPTIONS, training=training).columns
    ids, starts = columns["input_ids"]
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.starts, starts)
    np.testing.assert_array_equal(found.types, columns["type_ids"][0])
    for name, theirs in (
        ("example", found.example),
        ("context_first", found.context[:, 0]),
        ("context_last", found.context[:, 1]),
    ):
        np.testing.assert_array_equal(theirs, columns[name])
    if training:
        np.testing.assert_array_equal(found.labels[:, 0], columns["start"])
        np.testing.assert_array_equal(found.labels[:, 1], columns["end"])


def test_too_few_questions_that_fit_in_one_window_are_an_error(
    course: Course, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"90 training windows .* only 75 of its 100"):
        chosen(request_for(course, tmp_path, 90), load_tokenizer(str(course.model)))


def test_an_answer_is_the_best_pair_inside_the_context_of_any_window(tmp_path: Path) -> None:
    # Windows of 6 tokens, [CLS] and one of the question first; tokens 2 .. 5 are characters 0 .. 4.
    offsets = [[0, 0], [0, 9], [0, 1], [1, 2], [2, 3], [3, 4]]
    windows = 3
    features = Features(
        ids=np.zeros(6 * windows, np.int32),
        types=np.zeros(6 * windows, np.int8),
        offsets=np.array(offsets * windows, np.int32),
        starts=np.arange(windows + 1, dtype=np.int64) * 6,
        context=np.array([[2, 6]] * windows, np.int32),
        example=np.array([0, 1, 1], np.int32),
        labels=np.zeros((windows, 2), np.int32),
    )
    spec = spec_in(tmp_path, max_answer_tokens=2)
    texts = [{"id": "a", "context": "wxyz"}, {"id": "b", "context": "WXYZ"}]
    (tmp_path / "dev_examples.json").write_text(json.dumps(texts))
    #          cls  question  w  x  y  z
    starts = [[9.0, 9.0, 1.0, 0.2, 0.0, 3.0], [0, 0, 5.0, 0, 0, 0], [0, 0, 0, 6.0, 0, 0]]
    ends = [[9.0, 9.0, 0.0, 0.5, 9.0, 0.0], [0, 0, 0, 0, 0, 5.0], [0, 0, 0, 0, 5.0, 0]]
    # a: w..y is too long and z..y backwards, so x..y; b: w..z is too long, so the other window's.
    write_answers(spec, features, np.array(starts), np.array(ends))
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"a": "xy", "b": "XY"}


def test_the_settings_lightwork_gets_are_those_of_the_spec(course: Course, tmp_path: Path) -> None:
    spec = spec_in(
        tmp_path,
        model=str(course.model),
        train_file=str(course.train),
        dev_file=str(course.dev),
        whole=True,
        max_steps=7,
        learning_rate=2e-3,
    )
    settings = load_settings(write_lightwork_settings(spec), [])
    check_paths(settings)
    assert settings.data.dev == (course.dev,)
    assert (settings.train.batch_size, settings.train.max_steps) == (32, 7)
    assert (settings.train.learning_rate, settings.train.warmup_ratio) == (2e-3, 0)
    assert (settings.data.max_length, settings.data.stride) == (384, 128)
    assert (settings.launch.threads, settings.sync.strategy) == (1, "all_reduce")


def test_what_cannot_be_raced_is_said_before_anything_starts(
    capsys: pytest.CaptureFixture[str], course: Course
) -> None:
    with pytest.raises(LightworkError, match="nobody is not known; choose from lightwork"):
        choose(["lightwork", "nobody"])
    with pytest.raises(SystemExit) as end:
        peers.main(["--mode", "whole", "--batch", "31"])
    assert "--train FILE is needed; --mode whole needs --dev FILE; --batch 31" in str(end.value)
    with pytest.raises(SystemExit, match=r"--train: .*nowhere does not exist"):
        peers.main(["--train", str(course.model / "nowhere"), "--windows", "8"])
    assert capsys.readouterr().out == ""


def test_modes_are_added_to_a_file_of_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    peers.store(path, "steady", {"outcomes": [1]})
    peers.store(path, "whole", {"outcomes": [2]})
    peers.store(path, "steady", {"outcomes": [3]})
    assert json.loads(path.read_text()) == {
        "modes": {"steady": {"outcomes": [3]}, "whole": {"outcomes": [2]}}
    }
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


@pytest.fixture(scope="module")
def prepared(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """64 windows, 12 epochs of 4 steps: enough to answer most of the easy questions."""
    work = tmp_path_factory.mktemp("race")
    line = f"--mode whole --train {course.train} --dev {course.dev} --model {course.model} "
    line += "--windows 64 --batch 16 --epochs 12 --learning-rate 3e-3 --max-length 80 --stride 8"
    arguments = peers.parser().parse_args([*line.split(), "--log-every", "4"])
    prepare(peers.request_of(arguments, work))
    return peers.spec_of(arguments, work)


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("name", list(CONTENDERS))
def test_every_contender_does_the_same_work_and_learns(prepared: Spec, name: str) -> None:
    contender = CONTENDERS[name]
    pytest.importorskip(contender.needs)
    spec = replace(prepared, out=f"{prepared.out}/{name}")
    outcome = race(contender, spec, repeat=0, timeout_s=240)
    assert len(outcome.step_s) == len(outcome.step_windows) == 47
    assert sum(outcome.step_windows) == 47 * 16
    assert 0 < outcome.first_step_s < outcome.wall_s
    assert outcome.peak_memory_bytes > 100 << 20
    losses = [outcome.losses[step] for step in sorted(outcome.losses)]
    assert losses[0] > 2
    assert losses[-1] < 0.1
    assert outcome.scores["total"] == 35
    assert outcome.scores["missing"] == 0
    # A quarter of the dev contexts need two windows; one without the answer was never learned.
    assert outcome.scores["f1"] > 70

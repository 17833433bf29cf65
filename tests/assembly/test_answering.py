"""What is asked is answered from the text, at its place, as an evaluation would answer it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from lightwork.assembly import answering, run_evaluate
from lightwork.assembly.answering import Answerer, Found, open_answerer
from lightwork.errors import CheckpointError, LaunchError, RunError, SettingsError
from lightwork.settings import RunRecord, Settings, load_settings, to_yaml, write_run
from lightwork.tasks.extractive.model import (
    ScratchShape,
    build_model,
    load_tokenizer,
    save_model,
    train_tokenizer,
)
from lightwork.tasks.extractive.reading import read_questions
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from lightwork.train.checkpoint import Checkpoints, Part
from tests.assembly.made import filler, pointing_model, says
from tests.runs.conftest import questions

WHO = "Who is it ?"
AMBER = {"amber": (9.0, 9.0)}
SIZES = {"max_length": 24, "stride": 8, "max_question_length": 4}


@pytest.mark.parametrize("before", [0, 1, 18, 19, 25, 33, 34, 150, 299])
def test_an_answer_stands_at_its_place_in_a_long_text(tmp_path: Path, before: int) -> None:
    """Windows of 24 tokens: the word is at both edges of windows, and in two of them."""
    answerer = open_answerer(says(pointing_model(tmp_path, AMBER), **SIZES))
    context = f"{filler(0, before)}\n\t amber\u3000{filler(before, 300 - before)}"
    (found,) = answerer.answer(context, WHO, top=1)
    start = context.index("amber")
    assert (found.text, found.start, found.end) == ("amber", start, start + 5)
    assert found.probability == pytest.approx(1, abs=1e-4)


def test_an_answer_is_a_slice_of_the_text_with_its_blanks(tmp_path: Path) -> None:
    model = pointing_model(tmp_path, {"Ada": (9, -5), "Pell": (-5, 9)})
    context = "\ufeff\U0001f3ad w1\r\n w2 Ada \r\n\u00a0 Pell w3\n"
    (found,) = open_answerer(model).answer(context, f"  {WHO}\n", top=1)
    assert found.text == "Ada \r\n\u00a0 Pell" == context[found.start : found.end]


def test_windows_that_see_the_same_answer_count_it_once(tmp_path: Path) -> None:
    """Each of the two words is seen by one window or by two; both are worth the same."""
    answerer = open_answerer(says(pointing_model(tmp_path, AMBER), **SIZES))
    words = filler(0, 200).split()
    words[10] = words[100] = "amber"
    context = " ".join(words)
    found = answerer.answer(context, WHO, top=20)
    assert len({(one.start, one.end) for one in found}) == len(found) == 20
    first, second = context.index("amber"), context.rindex("amber")
    assert [one.start for one in found[:2]] == [first, second], "equal ones in the order of places"
    assert [one.probability for one in found[:2]] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert sum(one.probability for one in found) == pytest.approx(1)
    assert answerer.answer(context, WHO, top=2) == found[:2]


NULL = {"amber": (5.0, 4.0), "[CLS]": (6.0, 7.0)}
"""No answer is worth 4 more than the answer."""


@pytest.mark.parametrize(
    ("threshold", "texts"),
    [(0.0, ["", "amber"]), (3.99, ["", "amber"]), (4.01, ["amber", ""]), (-50.0, ["", "amber"])],
)
def test_no_answer_comes_first_where_it_exceeds_the_threshold(
    tmp_path: Path, threshold: float, texts: list[str]
) -> None:
    model = says(pointing_model(tmp_path, NULL), impossible=True, no_answer_threshold=threshold)
    found = open_answerer(model).answer(f"{filler(0, 50)} amber w60", WHO, top=2)
    assert [one.text for one in found] == texts
    (null,) = (one for one in found if not one.text)
    assert (null.start, null.end) == (-1, -1)
    weights = torch.tensor([13.0 - threshold, 9.0]).softmax(0).tolist()
    assert null.probability == pytest.approx(weights[0], abs=1e-3)
    assert found[0].probability >= found[1].probability


@pytest.mark.parametrize("said", [None, {"impossible": False, "no_answer_threshold": 0.0}])
def test_a_model_that_did_not_learn_no_answer_always_answers(
    tmp_path: Path, said: dict[str, Any] | None
) -> None:
    model = pointing_model(tmp_path, NULL)
    if said is not None:
        says(model, **said)
    found = open_answerer(model).answer("w1 amber w2 w3", WHO, top=20)
    assert found[0].text == "amber"
    assert all(one.start >= 0 for one in found)
    assert open_answerer(model).answer(" \n", WHO) == [Found("", 1.0, -1, -1)]


def windows_of(answerer: Answerer, monkeypatch: pytest.MonkeyPatch) -> WindowOptions:
    """How the answerer cuts a text."""
    seen: list[WindowOptions] = []

    def spy(examples: Any, tokenizer: Any, options: WindowOptions, **more: Any) -> Any:
        seen.append(options)
        return build_windows(examples, tokenizer, options, **more)

    monkeypatch.setattr(answering, "build_windows", spy)
    answerer.answer(filler(0, 300), WHO)
    return seen[0]


@pytest.mark.parametrize(
    ("positions", "options"),
    [
        (512, WindowOptions(384, 128, 64)),
        (384, WindowOptions(384, 128, 64)),
        (200, WindowOptions(200, 66, 50)),
        (16, WindowOptions(16, 5, 4)),
    ],
)
def test_without_a_word_about_it_windows_fit_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positions: int, options: WindowOptions
) -> None:
    model = pointing_model(tmp_path, AMBER, positions=positions)
    assert windows_of(open_answerer(model), monkeypatch) == options


def test_an_exported_folder_says_how_it_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = says(pointing_model(tmp_path, AMBER), **{**SIZES, "stride": 0}, exported_by="somebody")
    assert windows_of(open_answerer(model), monkeypatch) == WindowOptions(24, 0, 4)
    says(model, **{**SIZES, "max_length": 49})
    with pytest.raises(SettingsError, match="49 is more than the 48 tokens"):
        open_answerer(model)
    says(model, **{**SIZES, "stride": 17})
    with pytest.raises(SettingsError, match=r"more than data\.stride 17"):
        open_answerer(model)


def test_an_answer_has_as_many_tokens_as_the_folder_says(tmp_path: Path) -> None:
    model = pointing_model(tmp_path, {"Ada": (9, -5), "Pell": (-5, 9)})
    context = "w1 Ada w2 w3 Pell w4"
    says(model, max_answer_tokens=4)
    assert open_answerer(model).answer(context, WHO, top=1)[0].text == "Ada w2 w3 Pell"
    says(model, max_answer_tokens=3, n_best=2)
    found = open_answerer(model).answer(context, WHO, top=9)
    assert [answer.text for answer in found] == ["Ada", "w2 w3 Pell"]
    assert all(len(one.text.split()) <= 3 for one in found)
    words = [one.text for one in open_answerer(model, top=9).answer(context, WHO, top=9)]
    assert words == ["Ada", "w2 w3 Pell", "w1", "w4"], "no two share a word"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"impossible": "yes"}', "impossible: "),
        ('{"no_answer_threshold": NaN}', "no_answer_threshold: "),
        ('{"max_length": 0}', "max_length: "),
        ('{"stride": -1}', "stride: "),
        ('{"format": 2}', "format: "),
        ("[]", ""),
        ('{"stride": ', ""),
        ("\xff", ""),
    ],
)
def test_a_damaged_word_about_it_is_told(tmp_path: Path, text: str, part: str) -> None:
    model = pointing_model(tmp_path, AMBER)
    (model / "lightwork.json").write_text(text, encoding="latin-1")
    with pytest.raises(RunError) as caught:
        open_answerer(model)
    assert str(caught.value).startswith(f"{model / 'lightwork.json'} cannot be used: {part}")
    assert "\n" not in str(caught.value)


def test_a_model_without_an_answer_head_is_not_asked(tmp_path: Path) -> None:
    pointing_model(tmp_path, AMBER)
    config = BertConfig(hidden_size=8, num_attention_heads=1, num_hidden_layers=0)
    BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(RunError, match="holds a BertModel, which has no answer head yet"):
        open_answerer(tmp_path)


def test_a_gpu_that_is_not_there_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "visible_gpus", lambda: 0)
    model = pointing_model(tmp_path, AMBER)
    with pytest.raises(LaunchError, match="no GPU is visible"):
        open_answerer(model, "cuda")
    monkeypatch.setenv("RANK", "1")  # of a launcher this process has nothing to do with
    assert open_answerer(model, "auto").answer("w1 amber", WHO, top=1)[0].text == "amber"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose checkpoint is a random model of decided opinions that knows "no answer"."""
    folder = tmp_path_factory.mktemp("answering")
    (folder / "dev.json").write_text(json.dumps(questions(17)))
    settings = settings_of(folder)
    train_tokenizer([json.dumps(questions(50))], 300, folder / "tokenizer")
    tokenizer = load_tokenizer(str(folder / "tokenizer"))
    torch.manual_seed(7)
    shape = ScratchShape(layers=2, hidden=32, heads=2, intermediate=64, positions=48)
    model: Any = build_model(
        "scratch", dropout=0.5, weights=True, scratch=shape, vocabulary=len(tokenizer)
    )
    with torch.no_grad():
        model.qa_outputs.weight.mul_(40)
    run = folder / "run"
    parts = [
        Part("model", lambda place: save_model(model, tokenizer, place)),
        Part("state", {"impossible": True}),
    ]
    Checkpoints(run).write(3, parts)
    write_run(run, RunRecord({}))
    (run / "settings.yaml").write_text(to_yaml(settings))
    return run


def settings_of(folder: Path) -> Settings:
    """Small windows, few answers, in which "no answer" has its place."""
    (folder / "s.yaml").write_text(
        f"data: {{train: {folder}/dev.json, cache: {folder}/cache, max_length: 32, stride: 8,\n"
        "        max_question_length: 12}\n"
        "model: {source: scratch}\n"
        "evaluate: {n_best: 7, max_answer_tokens: 4, batch_tokens: 200}\n"
        "launch: {device: cpu, threads: 1}\n"
    )
    return load_settings(folder / "s.yaml")


def test_a_run_answers_as_its_evaluation_does_to_the_same_digits(run: Path, tmp_path: Path) -> None:
    data = run.parent / "dev.json"
    run_evaluate(run, [data], tmp_path, load_settings(run / "settings.yaml"))
    nbest = json.loads((tmp_path / "nbest.json").read_text())
    answerer = open_answerer(run)
    assert torch.get_num_threads() == 1, "as in the settings of the run"
    told: list[tuple[int, int]] = []
    found = answerer.answer_all(read_questions([data]), 7, lambda *done: told.append(done))
    assert list(found) == list(nbest)
    for example_id, answers in nbest.items():
        ours = [(one.text, one.probability) for one in found[example_id]]
        assert ours == [(one["text"], one["probability"]) for one in answers]
    counts = {len(answers) for answers in found.values()}
    assert max(counts) == 7 > min(counts), "fewer where the others share characters"
    nulls = [one for answers in found.values() for one in answers if one.start < 0]
    assert len(nulls) == 17
    assert told[0][0] == 0
    assert 17 < told[-1][0] < told[-1][1], "some questions have several windows"


def test_one_question_is_answered_as_among_many(run: Path) -> None:
    answerer = open_answerer(run, top=50)
    examples = read_questions([run.parent / "dev.json"])
    together = answerer.answer_all(examples, 5)
    for example in list(examples)[:6]:
        alone = answerer.answer(example.context, example.question, top=5)
        others = together[example.id]
        assert [one.start for one in alone] == [one.start for one in others]
        expected = [one.probability for one in others]
        assert [one.probability for one in alone] == pytest.approx(expected, rel=1e-3)
        for one in alone:
            assert one.text == (example.context[one.start : one.end] if one.start >= 0 else "")
    many = answerer.answer("old Anna has a red door . " * 9, "who ?", top=50)
    assert 20 < len(many) <= 50
    ends = sorted((one.start, one.end) for one in many)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def test_a_run_without_a_checkpoint_that_verifies(run: Path, tmp_path: Path) -> None:
    write_run(tmp_path, RunRecord({}))
    (tmp_path / "settings.yaml").write_text((run / "settings.yaml").read_text())
    with pytest.raises(RunError, match="no checkpoint yet"):
        open_answerer(tmp_path)
    (tmp_path / "checkpoints/step-000001").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="the only checkpoint in"):
        open_answerer(tmp_path)

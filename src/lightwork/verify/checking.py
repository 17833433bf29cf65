"""All rows, one after the other; each copy of the model is let go before the next is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lightwork.verify import epochs, evaluation, gradients, padding, replicas, streams
from lightwork.verify.practice import practise
from lightwork.verify.subject import Subject, Trainee
from lightwork.verify.verdict import Verdict, decide

ROWS = (
    epochs.WINDOWS,
    epochs.SHUFFLES,
    replicas.INITIAL,
    gradients.GRADIENTS,
    padding.PADDING,
    evaluation.EVALUATION,
    streams.STREAMS,
    replicas.REPLICAS,
    replicas.SAME_BITS,
)


def check_all(subject: Subject) -> Iterator[Verdict]:
    """The verdicts of all ``ROWS``, in their order; called on every rank."""
    group = subject.group
    yield decide(group, epochs.WINDOWS, lambda: epochs.every_window_once(subject))
    yield decide(group, epochs.SHUFFLES, lambda: epochs.shuffles(subject))
    yield from _before_the_first_step(subject)
    practice = practise(subject)
    yield decide(group, streams.STREAMS, lambda: streams.random_streams(subject, practice))
    yield decide(group, replicas.REPLICAS, lambda: replicas.replicas_after_steps(group, practice))
    yield decide(group, replicas.SAME_BITS, lambda: replicas.same_bits(subject))


def _before_the_first_step(subject: Subject) -> Iterator[Verdict]:
    """What is checked with the initial weights."""
    group, trainee = subject.group, subject.build(subject.group, False)

    def row(name: str, check: Callable[[Subject, Trainee], Verdict]) -> Verdict:
        return decide(group, name, lambda: check(subject, trainee))

    yield row(replicas.INITIAL, replicas.initial_weights)
    yield row(gradients.GRADIENTS, gradients.gradients)
    yield row(padding.PADDING, padding.padding_and_cutting)
    yield row(evaluation.EVALUATION, evaluation.evaluation)

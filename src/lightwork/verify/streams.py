"""Whether dropout draws from a stream of its own in every micro-batch, wherever it is computed."""

from __future__ import annotations

from lightwork.comm.group import Group
from lightwork.verify.practice import STEPS, Practice, Stream, watched_steps
from lightwork.verify.subject import Subject
from lightwork.verify.verdict import RowFailedError, Verdict, counted, gathered

STREAMS = "random streams"


def random_streams(subject: Subject, practice: Practice | RowFailedError) -> Verdict:
    """No two micro-batches of some steps start from the same random state, and each starts from
    the same one when rank 0 computes all shares of the first of these steps."""
    if isinstance(practice, RowFailedError):
        raise practice
    seen: dict[str, str] = {}
    for rank, streams in enumerate(practice.streams):
        for *place, state in streams:
            here = f"{_named(place)} on rank {rank}"
            if state in seen:
                raise RowFailedError(f"{seen[state]} and {here} begin with the same random state")
            seen[state] = here
    found = f"{counted(len(seen), 'micro-batch')} of {STEPS} steps, all different"
    if subject.group.size == 1:
        return Verdict(STREAMS, True, found)
    step = _check_elsewhere(subject, practice)
    return Verdict(STREAMS, True, f"{found}; step {step} alike where rank 0 computes all of it")


def _check_elsewhere(subject: Subject, practice: Practice) -> int:
    """The first of the steps again, all shares on rank 0; returns its number."""

    def alone() -> list[Stream]:
        if subject.group.rank != 0:
            return []
        return watched_steps(subject.build(Group.alone(), True), 1)

    states = {tuple(place): state for *place, state in gathered(subject.group, alone)[0]}
    step = min(int(stream[0]) for streams in practice.streams for stream in streams)
    for rank, streams in enumerate(practice.streams):
        for *place, state in streams:
            if place[0] == step and states.get(tuple(place)) != state:
                raise RowFailedError(
                    f"{_named(place)} begins with another random state on rank {rank} than where "
                    "rank 0 computes the whole step"
                )
    return step


def _named(place: list[int]) -> str:
    step, share, index = place
    return f"micro-batch {index} of share {share} in step {step}"

"""Files of other question-answering tasks are told apart, so that nobody hunts for a wrong key."""

from __future__ import annotations

from typing import Any

from lightwork.tasks.extractive.formats.place import Place

_OPTIONS = ("options", "choices", "choice", "endings", "answerKey", "ending0")
_GENERATED = ("answer", "output", "response", "completion", "target", "instances", "messages")
_NEEDED = (
    "extractive question answering needs a question, a context and gold answers that stand in it"
)


def refuse_other_task(place: Place, entry: dict[str, Any]) -> None:
    """Raise a ``DataError`` when ``entry`` is a question of another task.

    ``entry`` lacks ``context`` or ``answers``; with both it is extractive whatever else it holds.
    """
    question = entry.get("question")
    asked = question if isinstance(question, dict) else {}
    options = [key for key in _OPTIONS if key in entry or key in asked]
    if options:
        raise place.problem(
            f"this is a multiple-choice question (it has {options[0]}), which is not read; "
            f"{_NEEDED}"
        )
    generated = [key for key in _GENERATED if key in entry]
    if generated and "context" not in entry:
        raise place.problem(
            f"this is a question to be answered freely (it has {generated[0]} and no context), "
            f"which is not read; {_NEEDED}"
        )

"""The few lines of Python on a model card that ask the model without lightwork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SNIPPET = """\
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

folder = "."
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()


def answer(question, context):
    windows = tokenizer(
        question, context, truncation="only_second", max_length={max_length}, stride={stride},
        padding=True, return_overflowing_tokens=True, return_offsets_mapping=True,
        return_tensors="pt",
    )
    offsets = windows.pop("offset_mapping")
    windows.pop("overflow_to_sample_mapping", None)
    parts = [windows.sequence_ids(number) for number in range(len(offsets))]
    outside = torch.tensor([[part != 1 for part in row] for row in parts])
    with torch.no_grad():
        outputs = model(**windows)
    start = outputs.start_logits.masked_fill(outside, -torch.inf)
    end = outputs.end_logits.masked_fill(outside, -torch.inf)
    scores = start[:, :, None] + end[:, None, :]  # window, first token, last token
    allowed = torch.ones(scores.shape[1:], dtype=torch.bool).triu().tril({reach})
    scores = scores.masked_fill(~allowed, -torch.inf)
{no_answer}    window, first, last = torch.unravel_index(scores.argmax(), scores.shape)
    return context[offsets[window, first, 0] : offsets[window, last, 1]].strip()


print(answer("Who planted the tree?", "Old Anna planted the tree in the year of the flood."))
"""

_NO_ANSWER = """\
    token = tokenizer.bos_token_id if tokenizer.cls_token_id is None else tokenizer.cls_token_id
    null = (outputs.start_logits + outputs.end_logits)[windows["input_ids"] == token].min()
    if null - scores.max() > {threshold}:
        return ""  # the text holds no answer
"""


def snippet(asked: Mapping[str, Any]) -> str:
    """A program that answers as ``lightwork answer`` does; ``asked``: as in ``lightwork.json``."""
    no_answer = _NO_ANSWER.format(threshold=asked["no_answer_threshold"])
    return _SNIPPET.format(
        max_length=asked["max_length"],
        stride=asked["stride"],
        reach=asked["max_answer_tokens"] - 1,
        no_answer=no_answer if asked["impossible"] else "",
    )

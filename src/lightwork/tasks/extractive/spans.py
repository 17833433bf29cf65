"""Logits -> the n best spans of every window, all windows of a batch at once.

The answer of a span is exact, not a product of two beams: the best end within reach of every
start comes from one sliding maximum, and the starts of the n best spans are among the n starts
with the best sums, because each better start brings at least one better span.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import max_pool1d, pad

LOWEST = float("-inf")
WIDER = 8
"""So many times the answers that are wanted are looked at in each window: most of the best spans
share a token with a still better one, and of those only the best is an answer.
"""


def best_spans(
    start_logits: Tensor, end_logits: Tensor, context: Tensor, n_best: int, max_answer_tokens: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best spans of each row: first token, last token, score, each ``[windows, n]``.

    ``context`` is true where an answer may be; ``n`` is at most ``n_best``. A score of minus
    infinity marks a place for which there was no further span.
    """
    starts = _usable(start_logits, context)
    ends = pad(_usable(end_logits, context), (0, max_answer_tokens - 1), value=LOWEST)
    reachable = max_pool1d(ends[:, None], kernel_size=max_answer_tokens, stride=1)[:, 0]
    count = min(n_best, starts.shape[1])
    first = (starts + reachable).topk(count, dim=1).indices
    ahead = torch.arange(max_answer_tokens)
    choices = first[:, :, None] + ahead
    sums = starts.gather(1, first)[:, :, None] + ends.gather(1, choices.flatten(1)).view(
        choices.shape
    )
    best = sums.flatten(1).topk(min(n_best, sums[0].numel()), dim=1)
    chosen_first = first.gather(1, best.indices // max_answer_tokens)
    return chosen_first, chosen_first + best.indices % max_answer_tokens, best.values


def apart(first: Tensor, last: Tensor, score: Tensor, n_best: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the spans of each row, best first, those that share no token with a better one that is
    kept: at most ``n_best``, in the form that :func:`best_spans` gives.
    """
    first, last, score = _in_order(first, last, score)
    left = score > LOWEST
    # Unequal numbers, so that the maximum is always the first place that is left.
    rank = torch.arange(score.shape[1], 0, -1)
    kept = []
    for _ in range(min(n_best, score.shape[1])):
        place = (left * rank).argmax(dim=1, keepdim=True)
        one, other = first.gather(1, place), last.gather(1, place)
        found = left.gather(1, place)
        kept.append((one, other, score.gather(1, place).masked_fill(~found, LOWEST)))
        left &= (last < one) | (first > other)
        if not left.any():
            break
    firsts, lasts, scores = (torch.cat(parts, dim=1) for parts in zip(*kept, strict=True))
    return firsts, lasts, scores


def _in_order(first: Tensor, last: Tensor, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best first and, of equal ones, the one that stands first: ``topk`` promises no order."""
    by_place = (first * (int(last.max()) + 1) + last).argsort(dim=1)
    by_score = score.gather(1, by_place).argsort(dim=1, descending=True, stable=True)
    order = by_place.gather(1, by_score)
    return first.gather(1, order), last.gather(1, order), score.gather(1, order)


def _usable(logits: Tensor, context: Tensor) -> Tensor:
    """Logits of a diverged model may be NaN or infinite: no answer is there."""
    return logits.masked_fill(~(context & logits.isfinite()), LOWEST)


def candidate_rows(
    start_logits: Tensor,
    end_logits: Tensor,
    batch: dict[str, Tensor],
    *,
    n_best: int,
    max_answer_tokens: int,
    no_answer: bool,
) -> list[list[Any]]:
    """``[example, window, first, last, start_logit, end_logit]`` for the ``n_best`` best spans of
    each window that share no token, on the CPU.

    ``first`` and ``last`` count the tokens of the window's context from 0; with ``no_answer`` each
    window adds a row with -1, -1 and the logits of its classification token. Of ``batch`` are
    taken ``example``, ``window``, ``context_first``, ``context_last`` and ``cls``.
    """
    starts, ends = start_logits.float().cpu(), end_logits.float().cpu()
    names = ("example", "window", "context_first", "context_last", "cls")
    example, window, context_first, context_last, cls = (batch[name].cpu() for name in names)
    position = torch.arange(starts.shape[1])
    context = (position >= context_first[:, None]) & (position < context_last[:, None])
    spans = best_spans(starts, ends, context, WIDER * n_best, max_answer_tokens)
    first, last, score = apart(*spans, n_best)
    row, place = (score > LOWEST).nonzero(as_tuple=True)
    first, last = first[row, place], last[row, place]
    found = [
        example[row],
        window[row],
        first - context_first[row],
        last - context_first[row],
        starts[row, first],
        ends[row, last],
    ]
    rows = [list(values) for values in zip(*(part.tolist() for part in found), strict=True)]
    if no_answer:
        rows += _null_rows(starts, ends, example, window, cls)
    return rows


def _null_rows(
    starts: Tensor, ends: Tensor, example: Tensor, window: Tensor, cls: Tensor
) -> list[list[Any]]:
    start, end = (logits.gather(1, cls[:, None])[:, 0] for logits in (starts, ends))
    finite = start.isfinite() & end.isfinite()
    parts = [part[finite].tolist() for part in (example, window, start, end)]
    return [[one, two, -1, -1, three, four] for one, two, three, four in zip(*parts, strict=True)]

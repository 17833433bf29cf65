"""Plan mode: what the batches of an epoch cost, without computing any.

The cost of a step is ranks x the padded tokens of the rank with the most: the others wait for it.
Of that the real tokens are useful; the rest is waste (``data.plan.padding_waste``). Where compute
time is proportional to padded tokens, the throughput of two plans is as their useful parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers.trainer_pt_utils import (
    BatchRebalanceSampler,
    DistributedLengthGroupedSampler,
    LengthGroupedSampler,
)

from lightwork.data.plan import EpochPlan, padding_waste, round_to_on

MICRO_BATCH_TOKENS = 8192
"""lightwork's default; no share of these batches has more."""

ROUND_TO = round_to_on("cpu")
"""For all plans alike."""

Step = Sequence[Sequence[int]]
"""The windows of each rank."""

Dealing = Callable[[list[int], int, int, int], Iterator[Step]]
"""(lengths, ranks, windows a rank, seed) -> the steps of an epoch."""


def _sharded(order: Sequence[int], ranks: int, rank_batch: int) -> Iterator[Step]:
    """Batches dealt whole, as Accelerate does; the last are filled up from the start."""
    step = ranks * rank_batch
    for first in range(0, len(order), step):
        batch = list(order[first : first + step])
        batch += list(order)[: step - len(batch)]
        yield [batch[r * rank_batch : (r + 1) * rank_batch] for r in range(ranks)]


def random_batches(lengths: list[int], ranks: int, rank_batch: int, seed: int) -> Iterator[Step]:
    """The Trainer's default sampler."""
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
    return _sharded(order, ranks, rank_batch)


def length_groups(lengths: list[int], ranks: int, rank_batch: int, seed: int) -> Iterator[Step]:
    """The Trainer's ``group_by_length``: pools of 50 batches of one rank, sorted by length."""
    return _sharded(_grouped(lengths, rank_batch, seed), ranks, rank_batch)


def larger_groups(lengths: list[int], ranks: int, rank_batch: int, seed: int) -> Iterator[Step]:
    """The same sampler given to Accelerate, with pools of 50 global batches."""
    return _sharded(_grouped(lengths, ranks * rank_batch, seed), ranks, rank_batch)


def _grouped(lengths: list[int], batch: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return list(LengthGroupedSampler(batch, lengths=lengths, generator=generator))


def rebalanced(lengths: list[int], ranks: int, rank_batch: int, seed: int) -> Iterator[Step]:
    """The Trainer's ``batch_rebalance``."""
    samplers = [
        BatchRebalanceSampler(
            lengths=lengths,
            effective_batch_size=ranks * rank_batch,
            dp_size=ranks,
            grad_accum=1,
            seed=seed,
            rank=rank,
            drop_last=False,
        )
        for rank in range(ranks)
    ]
    return zip(*samplers, strict=True)


def dealt_one_by_one(lengths: list[int], ranks: int, rank_batch: int, seed: int) -> Iterator[Step]:
    """Pools of 50 global batches dealt window by window, as Fabric deals any sampler."""
    orders = [
        list(
            DistributedLengthGroupedSampler(
                ranks * rank_batch, lengths=lengths, num_replicas=ranks, rank=rank, seed=seed
            )
        )
        for rank in range(ranks)
    ]
    for first in range(0, len(orders[0]), rank_batch):
        yield [order[first : first + rank_batch] for order in orders]


PEERS: dict[str, tuple[Dealing, bool]] = {
    "trainer-default (padded to the full length)": (random_batches, True),
    "random batches, padded to their longest": (random_batches, False),
    "trainer-tuned (`group_by_length`)": (length_groups, False),
    "trainer-rebalanced (`batch_rebalance`)": (rebalanced, False),
    "accelerate (length groups, dealt in batches)": (larger_groups, False),
    "fabric (length groups, dealt one by one)": (dealt_one_by_one, False),
}
"""Name -> (how it deals windows, whether all are padded to ``max_length``)."""


def waste(lengths: Sequence[int], steps: Iterator[Step], padded_tokens: int | None) -> float:
    """As ``padding_waste``, of any steps; each rank pads to its longest, or to a fixed length."""
    spent, real = 0, sum(lengths)
    for step in steps:
        costs = [len(rank) * (padded_tokens or _padded(lengths, rank)) for rank in step]
        spent += len(costs) * max(costs)
    return 1 - real / spent


def _padded(lengths: Sequence[int], windows: Sequence[int]) -> int:
    return max(-(-lengths[window] // ROUND_TO) * ROUND_TO for window in windows)


def rows(
    lengths: Sequence[int],
    worlds: Sequence[tuple[int, int]],
    seeds: Sequence[int],
    max_length: int,
) -> list[dict[str, Any]]:
    """One row per (ranks, windows a rank) and plan: waste and throughput ratio for each seed."""
    plain, array = [int(length) for length in lengths], np.asarray(lengths)
    found = []
    for ranks, rank_batch in worlds:
        ours = [
            padding_waste(
                array,
                ranks,
                ranks,
                EpochPlan(seed, 0, array, ranks * rank_batch),
                MICRO_BATCH_TOKENS,
                ROUND_TO,
            )
            for seed in seeds
        ]
        shape = {"ranks": ranks, "rank_batch": rank_batch}
        found.append({**shape, "plan": "lightwork", "waste": ours, "ratio": [1.0] * len(ours)})
        for name, (deal, full) in PEERS.items():
            theirs = [
                waste(plain, deal(plain, ranks, rank_batch, seed), max_length if full else None)
                for seed in seeds
            ]
            ratio = [(1 - own) / (1 - other) for own, other in zip(ours, theirs, strict=True)]
            found.append({**shape, "plan": name, "waste": theirs, "ratio": ratio})
    return found

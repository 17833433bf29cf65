"""How gradients are exchanged in a run: from settings to a GradientSync."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from lightwork.data.plan import assign
from lightwork.settings import default_of
from lightwork.sync.all_reduce import AllReduce
from lightwork.sync.bucket_size import Cost, best_bucket_bytes, measured
from lightwork.sync.buckets import GradientBuckets
from lightwork.sync.ddp import DdpSync
from lightwork.sync.ring import Ring
from lightwork.sync.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch import nn

    from lightwork.comm.group import Group
    from lightwork.settings.running import SyncSettings
    from lightwork.sync.contract import GradientSync, Strategy
    from lightwork.sync.rows import Table

log = logging.getLogger("lightwork")


@dataclass(frozen=True)
class Chosen:
    """What a start exchanges gradients with; a checkpoint keeps it."""

    strategy: str
    ranks: int
    bucket_bytes: int


def strategy_of(name: str, group: Group, shares: int) -> Strategy:
    """The Strategy of that name. ``ddp`` is none: without its wrapper it is all_reduce."""
    if name == "tree":
        return Tree(group, assign(shares, group.size))
    return Ring(group) if name == "ring" else AllReduce(group)


def chosen(
    sync: SyncSettings,
    group: Group,
    strategy: Strategy,
    gradient_bytes: int,
    before: dict[str, Any],
) -> Chosen:
    """What these settings come to on these ranks; waits for all of them where it is measured.

    Args:
        sync: of the run.
        group: the ranks that train.
        strategy: the one that is going to be used.
        gradient_bytes: what has to travel in a step.
        before: what the checkpoint that is gone on from says, if there is one.
    """
    if sync.bucket_bytes != "auto":
        return Chosen(sync.strategy, group.size, sync.bucket_bytes)
    if group.size == 1:  # nothing travels, so nothing can be measured
        return Chosen(sync.strategy, group.size, default_of("sync.bucket_bytes"))
    known = Chosen(sync.strategy, group.size, int(before.get("bucket_bytes", 0)))
    if asdict(known) == before:
        return known
    device = torch.device("cuda", torch.cuda.current_device()) if group.on_cuda else "cpu"
    cost = measured(group, strategy, torch.device(device))
    size = best_bucket_bytes(cost, gradient_bytes)
    _say(cost, size)
    return Chosen(sync.strategy, group.size, size)


def _say(cost: Cost, bucket_bytes: int) -> None:
    log.info(
        "buckets of %g MiB (sync.bucket_bytes auto): a message costs %.2g ms here, and %.2g ms for "
        "every MB",
        bucket_bytes / 2**20,
        1e3 * cost.message_s,
        1e9 * cost.byte_s,
    )


def gradient_sync(
    use: Chosen, group: Group, strategy: Strategy, tables: Sequence[Table], overlap: bool
) -> GradientSync:
    """What sums the gradients of a model.

    Args:
        use: by what, and in buckets of which size.
        group: the ranks that train.
        strategy: what sums a bucket, where it is not ddp's own wrapper.
        tables: parameters of which only some rows get a gradient in a step.
        overlap: whether gradients travel while backward runs.
    """
    if use.strategy == "ddp":
        return DdpSync(group, use.bucket_bytes)
    return GradientBuckets(strategy, use.bucket_bytes, tables, overlap)


def gradient_bytes(module: nn.Module, without: Collection[str]) -> int:
    """Of all gradients but for those ``without`` which only rows travel."""
    named = module.named_parameters()
    return sum(p.nbytes for name, p in named if p.requires_grad and name not in without)

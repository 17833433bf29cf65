"""Contender ``fabric``: a written loop around Lightning Fabric.

Batches of similar lengths padded to the longest of the batch, the fused optimizer, gradients as
views of DDP's buckets. Fabric deals the windows of the sampler one by one, so the ranks get
windows of similar lengths in every step. Started by torchrun with the path of a spec.
"""

from __future__ import annotations

import sys

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor

from benchmarks.adapters.answers import write_answers
from benchmarks.adapters.spec import Spec
from benchmarks.adapters.steps import StepLog, end_program
from benchmarks.adapters.written_loop import Parts, batches, build, dev_logits


def main() -> None:
    """Run as one rank."""
    spec = Spec.load(sys.argv[1])
    backend = "gloo" if spec.device == "cpu" else "nccl"
    wrapping = DDPStrategy(process_group_backend=backend, gradient_as_bucket_view=True)
    fabric = Fabric(
        accelerator=spec.device,
        devices=spec.ranks,
        strategy=wrapping if spec.ranks > 1 else "auto",
    )
    fabric.launch()
    fabric.seed_everything(spec.seed + fabric.global_rank, verbose=False)
    parts = build(spec)
    model = _train(spec, fabric, parts)
    if parts.dev is None or parts.dev_features is None:
        return
    state = {"model": model, "optimizer": parts.optimizer}
    fabric.save(f"{spec.out}/state.ckpt", state)
    loader = fabric.setup_dataloaders(parts.dev)

    def gather(logits: Tensor) -> Tensor:
        """Undo the dealing: row r of rank k is window ``r * ranks + k``."""
        if fabric.world_size == 1:
            return logits
        rows: Tensor = fabric.all_gather(logits).transpose(0, 1).flatten(0, 1)
        return rows

    starts, ends = dev_logits(model, loader, spec.max_length, gather)
    if fabric.is_global_zero:
        # The last windows are repeated until each rank has as many; those rows are left over.
        write_answers(spec, parts.dev_features, starts, ends)


def _train(spec: Spec, fabric: Fabric, parts: Parts) -> torch.nn.Module:
    model, optimizer = fabric.setup(parts.model, parts.optimizer)
    loader = fabric.setup_dataloaders(parts.train)
    model.train()
    with StepLog(spec, fabric.global_rank) as log:
        log.facts(threads=torch.get_num_threads(), ranks=fabric.world_size)
        for step, batch in batches(spec, loader):
            loss = model(**batch).loss
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=spec.max_grad_norm)
            optimizer.step()
            parts.schedule.step()
            optimizer.zero_grad()
            log.end(step)
            if step % spec.log_every_steps == 0:
                log.loss(step, float(fabric.all_reduce(loss.detach(), reduce_op="mean")))
    trained: torch.nn.Module = model
    return trained


if __name__ == "__main__":
    main()
    end_program()

"""Contender ``accelerate``: a written loop around ``Accelerator``.

Batches of similar lengths padded to the longest of the batch, the fused optimizer, gradients as
views of DDP's buckets. Started by torchrun with the path of a spec.
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, set_seed

from benchmarks.adapters.answers import write_answers
from benchmarks.adapters.spec import Spec
from benchmarks.adapters.steps import StepLog, end_program
from benchmarks.adapters.written_loop import Parts, batches, build, dev_logits


def main() -> None:
    """Run as one rank."""
    spec = Spec.load(sys.argv[1])
    wrapping = DistributedDataParallelKwargs(gradient_as_bucket_view=True)
    accelerator = Accelerator(cpu=spec.device == "cpu", kwargs_handlers=[wrapping])
    set_seed(spec.seed, device_specific=True)
    parts = build(spec)
    model = _train(spec, accelerator, parts)
    if not spec.whole:
        return
    accelerator.save_state(f"{spec.out}/state")
    loader = accelerator.prepare(parts.dev)
    starts, ends = dev_logits(model, loader, spec.max_length, accelerator.gather_for_metrics)
    if accelerator.is_main_process:
        assert parts.dev_features is not None
        write_answers(spec, parts.dev_features, starts, ends)


def _train(spec: Spec, accelerator: Accelerator, parts: Parts) -> torch.nn.Module:
    model, optimizer, loader = accelerator.prepare(parts.model, parts.optimizer, parts.train)
    model.train()
    with StepLog(spec, accelerator.process_index) as log:
        log.facts(threads=torch.get_num_threads(), ranks=accelerator.num_processes)
        for step, batch in batches(spec, loader):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), spec.max_grad_norm)
            optimizer.step()
            parts.schedule.step()
            optimizer.zero_grad()
            log.end(step)
            if step % spec.log_every_steps == 0:
                log.loss(step, float(accelerator.gather(loss.detach()).mean()))
    trained: torch.nn.Module = model
    return trained


if __name__ == "__main__":
    main()
    end_program()

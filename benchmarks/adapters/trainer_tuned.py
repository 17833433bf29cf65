"""Contender ``trainer-tuned``: the Trainer with everything switched on that helps here.

Batches of similar lengths, padded to the longest of the batch; the fused optimizer; no search for
unused parameters; dev windows sorted by length. ``train_tuned`` takes the sampling as an argument,
because the Trainer has two kinds that help. Started by torchrun with the path of a spec.
"""

from __future__ import annotations

import sys

from transformers import AutoTokenizer, DataCollatorWithPadding, TrainingArguments

from benchmarks.adapters.features import Features, WindowData, longest_first
from benchmarks.adapters.spec import Spec
from benchmarks.adapters.trainer_run import run, shared_arguments


def train_tuned(spec: Spec, sampling: str) -> None:
    """Run as one rank; ``sampling`` is the Trainer's ``train_sampling_strategy``."""
    arguments = TrainingArguments(
        **shared_arguments(spec),
        per_device_eval_batch_size=spec.eval_batch,
        train_sampling_strategy=sampling,
        optim="adamw_torch_fused",
        tf32=True if spec.device == "cuda" else None,  # as lightwork does there
        ddp_find_unused_parameters=False,
        dataloader_num_workers=spec.workers,
        dataloader_persistent_workers=spec.workers > 0,
        disable_tqdm=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(spec.model)
    train_data = WindowData(Features.load(spec.train_windows), labels=True)
    dev = None
    if spec.whole:
        features = Features.load(spec.dev_windows)
        features = features.only(longest_first(features))
        dev = features, WindowData(features, labels=False)
    collator = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=spec.pad_to_multiple_of)
    run(spec, arguments, collator, train_data, dev)


if __name__ == "__main__":
    train_tuned(Spec.load(sys.argv[1]), "group_by_length")

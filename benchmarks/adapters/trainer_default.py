"""Contender ``trainer-default``: the Trainer as the well-known example has it.

Every window is padded to the full length when it is tokenised; the sampler, the optimizer and the
batches of the evaluation are the Trainer's defaults. Started by torchrun with the path of a spec.
"""

from __future__ import annotations

import sys

from transformers import AutoTokenizer, TrainingArguments, default_data_collator

from benchmarks.adapters.features import Features, PaddedData
from benchmarks.adapters.spec import Spec
from benchmarks.adapters.trainer_run import run, shared_arguments


def main() -> None:
    """Run as one rank."""
    spec = Spec.load(sys.argv[1])
    arguments = TrainingArguments(**shared_arguments(spec))
    pad_id = AutoTokenizer.from_pretrained(spec.model).pad_token_id
    train = Features.load(spec.train_windows)
    train_data = PaddedData(train, spec.max_length, pad_id, labels=True)
    dev = None
    if spec.whole:
        features = Features.load(spec.dev_windows)
        dev = features, PaddedData(features, spec.max_length, pad_id, labels=False)
    run(spec, arguments, default_data_collator, train_data, dev)


if __name__ == "__main__":
    main()

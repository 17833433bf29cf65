"""Contender ``trainer-rebalanced``: as ``trainer-tuned``, with the Trainer's other sampling.

``batch_rebalance`` sorts each global batch by length and gives the ranks different numbers of
windows, so that they end together. Started by torchrun with the path of a spec.
"""

from __future__ import annotations

import sys

from benchmarks.adapters.spec import Spec
from benchmarks.adapters.trainer_tuned import train_tuned

if __name__ == "__main__":
    train_tuned(Spec.load(sys.argv[1]), "batch_rebalance")

"""From settings to something that runs: where all rooms meet, and the only place that knows all."""

from lightwork.assembly.bench_sync import run_bench_sync
from lightwork.assembly.evaluating import run_evaluate
from lightwork.assembly.preparing import run_prepare
from lightwork.assembly.training import run_train
from lightwork.assembly.trying import run_dry
from lightwork.assembly.verifying import run_verify

__all__ = [
    "Wish",
    "run_bench_sync",
    "run_dry",
    "run_evaluate",
    "run_prepare",
    "run_train",
    "run_verify",
]

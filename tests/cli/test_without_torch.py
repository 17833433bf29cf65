"""What a person waits for answers without importing torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
sys.argv = ["lightwork", *sys.argv[1:]]
from lightwork.cli.main import run
try:
    run()
finally:
    heavy = {"torch", "transformers", "numpy", "tokenizers"} & set(sys.modules)
    print("heavy:", sorted(heavy))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--help"], 0, "evaluate"),
        (["--version"], 0, "lightwork"),
        (["prepare", "--help"], 0, "SETTINGS"),
        (["train", "--help"], 0, "--ranks"),
        (["evaluate", "--help"], 0, "--data"),
        (["verify", "--help"], 0, "--ranks"),
        (["bench", "sync", "--help"], 0, "--plot"),
        (["bench", "sync", "nope.yaml"], 2, "does not exist"),
        (["train", "nope.yaml"], 2, "does not exist"),
        (["verify", "nope.yaml"], 2, "does not exist"),
        (["train", "s.yaml"], 2, "train.learnig_rate is not a setting"),
        (["train", "s.yaml", "--run"], 2, "requires an argument"),
        (["evaluate", "nope"], 2, "does not exist"),
        (["list"], 2, "does not exist"),
        (["checkpoints", "nope"], 2, "does not exist"),
        (["logs", "nope"], 2, "has no logs"),
        (["explain", "--help"], 0, "holds a run up"),
        (["data", "nope"], 2, "does not exist"),
        (["score", "nope", "nope"], 2, "does not exist"),
        (["export", "nope", "out"], 2, "does not exist"),
    ],
)
def test_answers_without_torch(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    (tmp_path / "s.yaml").write_text("train:\n  learnig_rate: 3\n")
    environment = {key: os.environ[key] for key in os.environ if "RANK" not in key}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert says in ended.stdout + ended.stderr
    assert ended.stdout.endswith("heavy: []\n")
    assert "Traceback" not in ended.stderr

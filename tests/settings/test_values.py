"""Text of a settings file and of the command line becomes typed values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from lightwork.errors import SettingsError
from lightwork.settings.kinds import AtLeastOne, Location, Number, Text, Whole
from lightwork.settings.loading import read
from tests.settings.given import in_file, load, mistakes


class Traps(BaseModel):
    """Declared types of every sort, for values that YAML 1.1 takes for something else."""

    model_config = ConfigDict(extra="forbid")
    lr: Number = 0.0
    weight_decay: Number = 0.0
    adam_eps: Number = 0.0
    warmup_updates: Whole = 0
    save_every: Whole = 0
    fp16: bool = False
    language: Text = ""
    doc_stride: Whole = 0
    max_seq_len: Whole = 0
    time_limit: Text = ""
    run_name: Text = ""
    seed: Whole = 0
    output_dir: Location = Path()
    limit: AtLeastOne | None = None


class TrapSettings(BaseModel):
    """A model with one section."""

    run: Traps = Traps()


TRAPS = {
    "lr: 1e-4": 1e-4,
    "lr: 3E-5": 3e-5,
    "lr: 5": 5.0,
    'weight_decay: "1.0e-2"': 0.01,
    "save_every: 1_000": 1000,
    "save_every: 1e3": 1000,
    "seed: 0": 0,
    "seed: -3": -3,
    "fp16: yes": True,
    "fp16: on": True,
    "fp16: No": False,
    "fp16: false": False,
    "language: no": "no",
    "language: on": "on",
    "language: 'null'": "null",
    "language: 2024-01-31": "2024-01-31",
    'doc_stride: "128"': 128,
    "max_seq_len: 384.0": 384,
    "time_limit: 12:30": "12:30",
    "run_name: 1e3": "1e3",
    "run_name: 0777": "0777",
    "limit: ~": None,
    "limit:": None,
}


def trap(line: str) -> Any:
    """The value of one line of YAML, which must be the same from the command line."""
    key, _, value = line.partition(":")
    Path("traps.yaml").write_text(f"run:\n  {line}\n")
    from_file = read(TrapSettings, Path("traps.yaml"), [], {})
    from_command = read(TrapSettings, None, [f"run.{key}={value.strip()}"], {})
    assert from_file == from_command
    return getattr(from_file.run, key)


@pytest.mark.parametrize("line", TRAPS)
def test_declared_type_decides_not_yaml(folder: Path, line: str) -> None:
    value = trap(line)
    assert value == TRAPS[line]
    assert type(value) is type(TRAPS[line])


@pytest.mark.parametrize(
    "line",
    [
        "warmup_updates: 010",
        "lr: 010",
        "max_seq_len: 384.5",
        "max_seq_len: 12:30",
        "seed: 0x10",
        "seed: 1__0",
        "lr: .nan",
        "lr: nan",
        "lr: inf",
        "fp16: maybe",
        "fp16: 2",
        "language: ~",
        "language:",
        'language: ""',
        "output_dir: ~",
        'output_dir: ""',
        "limit: 0",
        "limit: none",
        "seed: [1, 2]",
        "seed: {a: 1}",
    ],
)
def test_a_value_of_the_wrong_type_is_one_line_with_key_and_value(folder: Path, line: str) -> None:
    key, _, value = line.partition(":")
    Path("traps.yaml").write_text(f"run:\n  {line}\n")
    with pytest.raises(SettingsError) as caught:
        read(TrapSettings, Path("traps.yaml"), [], {})
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert f"run.{key}" in text
    assert value.strip(' "~') in text or "values inside values" in text


@pytest.mark.shared
def test_yaml_traps_of_the_shared_case(shared: Path, folder: Path) -> None:
    case = shared / "cases" / "44-yaml-number-and-bool-traps"
    right = json.loads((case / "expect.json").read_text())["right"]
    for line in (case / "config.yaml").read_text().splitlines():
        wanted = right[line.partition(":")[0]]
        if str(wanted).startswith("error"):
            with pytest.raises(SettingsError):
                trap(line)
        elif "12:30" in str(wanted):
            assert trap(line) == "12:30"
        else:
            assert trap(line) == wanted


def test_byte_order_mark_and_json_are_fine(folder: Path) -> None:
    values = {"data": {"train": "train.json", "limit": None}, "model": {"source": "scratch"}}
    values["train"] = {"learning_rate": 3e-5}
    Path("s.yaml").write_bytes(b"\xef\xbb\xbf" + json.dumps(values).encode())
    assert load() == in_file("train:\n  learning_rate: 3e-5\n")


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        ("8MiB", 8 << 20),
        ("25MB", 25_000_000),
        ("64 kib", 65536),
        ("1.5MiB", 1572864),
        ("2048", 2048),
    ],
)
def test_sizes_have_units(folder: Path, given: str, bytes_: int) -> None:
    assert load(f"sync.bucket_bytes={given}").sync.bucket_bytes == bytes_


@pytest.mark.parametrize("given", ["8 MiBs", "1000B", "-8MiB", "1.2.3MB", "0.00001MB", "8m"])
def test_sizes_that_are_none(folder: Path, given: str) -> None:
    assert "sync.bucket_bytes" in mistakes(f"sync.bucket_bytes={given}")

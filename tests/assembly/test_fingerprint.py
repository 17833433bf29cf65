"""What bits depend on: told apart, said once, written down; and threads that no rank moves."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lightwork.assembly import opening
from lightwork.assembly.fingerprint import LEDGER, Fingerprint, fingerprint, note_changes
from lightwork.comm.group import Group
from lightwork.data.loader import Cutting
from lightwork.settings import load_settings
from lightwork.train.model import Model
from tests.ranks import run_as_threads
from tests.train.toy import ToyTask

CUTTING = Cutting(seed=7, batch_size=8, shares=4, micro_batch_tokens=64, round_to=1)


def model(attention: str = "sdpa") -> Model:
    module = nn.Linear(2, 2)
    module.config = SimpleNamespace(_attn_implementation=attention)  # type: ignore[assignment]
    return Model(module, module, ToyTask(), torch.device("cpu"), lambda windows: [])


def own(strategy: str = "tree") -> Fingerprint:
    return fingerprint(Group.alone(), model(), strategy, CUTTING)


def test_it_is_json_and_names_what_bits_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = own()
    assert json.loads(json.dumps(found)) == found
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert found["dtype"] == ["torch.float32"]
    assert {**found, "seed": 7, "shares": 4, "micro_batch_tokens": 64, "round_to": 1} == found
    assert "ranks" not in found
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert own() != found
    monkeypatch.undo()
    other = fingerprint(Group.alone(), model("eager"), "tree", CUTTING)
    assert {name for name in found if found[name] != other[name]} == {"attention"}


def test_it_is_that_of_all_ranks_in_no_order_of_theirs() -> None:
    def at(group: Group, eager_rank: int | None) -> Fingerprint:
        kind = "eager" if group.rank == eager_rank else "sdpa"
        return fingerprint(group, model(kind), "tree", CUTTING)

    alike = run_as_threads(3, lambda group: at(group, None))
    assert [found["attention"] for found in alike] == ["sdpa"] * 3
    for eager_rank in (0, 2):
        mixed = run_as_threads(3, lambda group, r=eager_rank: at(group, r))  # type: ignore[misc]
        assert [found["attention"] for found in mixed] == [["eager", "sdpa"]] * 3


def test_changes_are_one_line_and_an_entry_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lightwork")
    before = {**own(), "threads": 8, "torch": "2.0"}
    note_changes(tmp_path, 40, before, {**own(), "threads": 2, "torch": "2.1"})
    (record,) = caplog.records
    assert record.getMessage() == (
        "from step 41 on the bits are no longer those of an unchanged run: torch 2.0 became 2.1, "
        "threads 8 became 2"
    )
    entries = [json.loads(line) for line in (tmp_path / LEDGER).read_text().splitlines()]
    assert entries == [
        {"step": 41, "changed": "torch", "from": "2.0", "to": "2.1"},
        {"step": 41, "changed": "threads", "from": 8, "to": 2},
    ]


def test_a_checkpoint_without_a_fingerprint_is_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note_changes(tmp_path, 40, {}, own())
    assert "step 40 was saved without a fingerprint" in caplog.text
    assert (tmp_path / LEDGER).exists()


@pytest.mark.parametrize(
    ("before", "now"),
    [(own(), own()), (own("ddp"), {**own("all_reduce"), "threads": 9}), ({}, own("ddp"))],
    ids=["the same", "never a tree", "unknown and no tree"],
)
def test_nothing_is_said_without_a_change_or_a_promise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, before: Fingerprint, now: Fingerprint
) -> None:
    caplog.set_level(logging.INFO, logger="lightwork")
    note_changes(tmp_path, 40, before, now)
    assert not caplog.records
    assert not (tmp_path / LEDGER).exists()


@pytest.mark.parametrize(
    ("strategy", "given", "recorded", "threads"),
    [
        ("all_reduce", "auto", None, None),
        ("all_reduce", "3", 5, None),
        ("tree", "auto", None, 4),  # 16 cores, 4 shares
        ("tree", "auto", 6, 6),  # the first start was on another machine
        ("tree", "3", None, 3),
        ("tree", "3", 6, 3),
    ],
)
def test_threads_with_the_tree(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    given: str,
    recorded: int | None,
    threads: int | None,
) -> None:
    (tmp_path / "s.yaml").write_text("data:\n  train: t.json\nmodel:\n  source: scratch\n")
    overrides = [f"sync.strategy={strategy}", f"launch.threads={given}"]
    settings = load_settings(tmp_path / "s.yaml", overrides)
    monkeypatch.setattr(opening, "usable_cores", lambda: 16)
    assert opening._threads(settings, recorded, 4) == threads
    assert threads is None or opening._threads(settings, threads, 4) == threads

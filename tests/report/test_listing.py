"""Runs side by side: what is shown, how it is laid out, and that names cannot break it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from rich.console import Console

from lightwork.report.listing import PLAIN_WIDTH, columns_of, differing, show
from lightwork.report.runs import Problem, RunFacts, in_order, read_facts, read_runs
from tests.report.made import finished_run, made_run


def shown(
    runs: list[RunFacts], problems: list[Problem], width: int = 0, terminal: bool = False
) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=width or 80), runs, problems)
    return file.getvalue()


def two_runs(folder: Path, *overrides: str) -> list[RunFacts]:
    """Runs ``a`` and ``b``; the latter with these settings."""
    return [
        read_facts(finished_run(folder / "a", 80.0)),
        read_facts(finished_run(folder / "b", 81.5, *overrides)),
    ]


def cells(runs: list[RunFacts], title: str) -> list[str]:
    return next(column.cells for column in columns_of(runs) if column.title == title)


def test_only_settings_that_differ_have_a_column(tmp_path: Path) -> None:
    runs = two_runs(tmp_path, "train.learning_rate=1e-4", "train.seed=7", "launch.device=cpu")
    assert differing(runs) == ["train.learning_rate", "train.seed"]
    assert cells(runs, "train.learning_rate") == ["3e-05", "0.0001"]
    assert differing(runs[:1]) == []


def test_a_setting_that_an_older_version_did_not_know_has_its_default(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    record = json.loads((tmp_path / "a/run.json").read_text())
    del record["identity"]["train.seed"]
    (tmp_path / "a/run.json").write_text(json.dumps(record))
    older = read_facts(tmp_path / "a")
    assert differing([older, runs[1]]) == []
    other = read_facts(finished_run(tmp_path / "c", 70.0, "train.seed=7", "train.max_steps=9"))
    assert cells([older, other], "train.seed") == ["42", "7"]
    assert cells([older, other], "train.max_steps") == ["null", "9"]


def test_a_setting_that_this_version_does_not_know(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    record = json.loads((tmp_path / "a/run.json").read_text())
    record["identity"]["train.new"] = [1]
    (tmp_path / "a/run.json").write_text(json.dumps(record))
    assert differing([read_facts(tmp_path / "a"), runs[1]]) == ["train.new"]


def test_training_files_by_name_or_by_digest_where_the_name_is_not_enough(tmp_path: Path) -> None:
    a = read_facts(finished_run(tmp_path / "a", 80.0, content="{}", file="small.json"))
    b = read_facts(finished_run(tmp_path / "b", 80.0, content="[]", file="large.json"))
    c = read_facts(finished_run(tmp_path / "c", 80.0, content="[1]", file="large.json"))
    assert cells([a, b], "data.train") == ["small.json", "large.json"]
    digests = [run.identity["data.train"][0][:8] for run in (b, c)]
    assert cells([b, c], "data.train") == [f"large.json {digest}" for digest in digests]
    (tmp_path / "b/settings.yaml").unlink()
    assert cells([b, c], "data.train") == [digests[0], f"large.json {digests[1]}"]


def test_moved_but_equal_training_files_are_no_difference(tmp_path: Path) -> None:
    a = read_facts(finished_run(tmp_path / "a", 80.0, file="small.json"))
    b = read_facts(finished_run(tmp_path / "b", 80.0, file="same.json"))
    assert differing([a, b]) == []


def test_models_in_folders_by_their_name(tmp_path: Path) -> None:
    for name in ("x/bert", "y/bert", "y/mini"):
        (tmp_path / name).mkdir(parents=True)
    sources = [tmp_path / "x/bert", tmp_path / "y/bert", tmp_path / "y/mini"]
    runs = [
        read_facts(finished_run(tmp_path / f"r{number}", 1.0, f"model.source={source}"))
        for number, source in enumerate(sources)
    ]
    assert cells(runs[1:], "model.source") == ["bert", "mini"]
    assert cells(runs, "model.source") == [str(source) for source in sources]


def test_plain_text_is_aligned(tmp_path: Path) -> None:
    runs = [*two_runs(tmp_path), read_facts(made_run(tmp_path / "new"))]
    title, *lines = shown(in_order(runs, "score"), []).splitlines()
    assert title.split()[:4] == ["run", "state", "steps", "f1"]
    assert [line.split()[0] for line in lines] == ["b", "a", "new"]
    end = title.index("f1") + len("f1")
    assert [line[:end].split()[-1] for line in lines] == ["81.50", "80.00", "-"]
    assert lines[2].split()[1:4] == ["stopped", "early", "0/120"]
    state = title.index("state")
    assert [line[state:].split("  ")[0] for line in lines] == ["finished"] * 2 + ["stopped early"]


def test_too_many_columns_become_blocks(tmp_path: Path) -> None:
    names = (
        "data.max_length=200", "data.stride=64", "data.max_question_length=32", "data.limit=9",
        "train.batch_size=8", "train.epochs=9", "train.warmup_ratio=0.5", "train.seed=1",
    )  # fmt: skip
    runs = two_runs(tmp_path, *names)
    text = shown(runs, [])
    first, second = text.split("\n\n")
    assert first.splitlines()[0] == "a"
    assert second.splitlines()[0] == "b"
    assert "  data.max_question_length  32\n" in second
    assert max(map(len, text.splitlines())) < PLAIN_WIDTH


def test_a_terminal_gets_a_table_or_blocks_if_it_is_narrow(tmp_path: Path) -> None:
    runs = two_runs(tmp_path)
    wide = shown(runs, [], width=120, terminal=True)
    assert "─" in wide
    assert "…" not in wide
    assert [line for line in wide.splitlines() if "81.50" in line and "finished" in line]
    narrow = shown(runs, [], width=60, terminal=True)
    assert "─" not in narrow
    assert "  f1            81.50" in narrow


def test_a_table_fits_exactly(tmp_path: Path) -> None:
    """At every width either all columns are whole, or there are blocks."""
    runs = two_runs(tmp_path)
    narrowest: list[tuple[int, int]] = []
    for width in range(60, 130):
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown(runs, [], width=width, terminal=True))
        assert "…" not in text, width
        table = "─" in text
        rows = [line for line in text.splitlines() if "81.50" in line]
        assert len(rows) == 1
        assert ("finished" in rows[0]) == table, width
        if table:
            narrowest.append((width, max(map(len, text.splitlines()))))
    assert narrowest[0][0] == narrowest[0][1]


def test_names_are_no_markup_and_no_control_characters(tmp_path: Path) -> None:
    runs = [read_facts(made_run(tmp_path / name)) for name in ("[red]x[bold]", "a\x1b[2Jb", "猫")]
    for terminal in (True, False):
        text = shown(runs, [], width=200, terminal=terminal)
        assert "[red]x[bold]" in text
        assert "a?[2Jb" in text
    *_, last = shown(runs, []).splitlines()
    title = shown(runs, []).splitlines()[0]
    assert last.index("stopped") == title.index("state") - 1  # 猫 is two places wide


def test_damaged_runs_are_told_below(tmp_path: Path) -> None:
    finished_run(tmp_path / "runs" / "whole", 80.0)
    made_run(tmp_path / "runs" / "torn")
    (tmp_path / "runs/torn/run.json").write_text("{")
    text = shown(*read_runs(tmp_path / "runs"))
    assert text.splitlines()[-1].startswith("not listed: torn: ")
    (tmp_path / "runs/whole/run.json").write_text("{")
    assert shown(*read_runs(tmp_path / "runs")).startswith("no run here can be read\n")

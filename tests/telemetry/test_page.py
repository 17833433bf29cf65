"""The page of the records names what is written, and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields

from lightwork.telemetry.records import VERSION, Sample, StepRecord
from lightwork.telemetry.sinks import TAGS
from tests.conftest import ROOT
from tests.telemetry.test_recorder import record

PAGE = (ROOT / "docs/timeline.md").read_text(encoding="utf-8")


def test_the_table_has_every_field_once() -> None:
    table = PAGE.partition("## The lines")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    written = set(record(1).as_json())
    assert sorted(named) == sorted(written - {"version"})
    assert f"`version` is {VERSION}" in table
    own = {field.name for kind in (StepRecord, Sample) for field in fields(kind)}
    assert own - {"sample"} <= written


def test_every_tag_shows_a_field() -> None:
    assert set(TAGS.values()) <= set(record(1).as_json())
    assert {field.name for field in fields(Sample)} <= set(TAGS.values())

"""``lightwork init`` on files that are no SQuAD document: what it splits reads back the same."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from lightwork.settings import load_settings
from lightwork.tasks.extractive.reading import read_examples
from tests.cli.conftest import Command


@pytest.mark.parametrize("packed", [False, True])
def test_other_formats_are_split_as_well(folder: Path, command: Command, packed: bool) -> None:
    """A table of rows, and the raw shape of CMRC 2018, whose answers have no places."""
    rows = [["id", "question", "context", "answers"]]
    for number in range(30):
        context = f"w{number} a tower"
        answers = {"text": ["tower"], "answer_start": [context.index("tower")]}
        rows.append([f"r{number}", "What?", context, json.dumps(answers)])
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    articles = [
        {
            "context_id": f"C{number}",
            "context_text": f"第{number}座塔是王某建的，后来王某搬走了。",
            "qas": [
                {"query_id": f"C{number}-1", "query_text": "谁？", "answers": ["王某"]},
                {"query_id": f"C{number}-2", "query_text": "什么？", "answers": ["塔"]},
            ],
        }
        for number in range(30)
    ]
    for name, content in (("rows.csv", text.getvalue()), ("raw.json", json.dumps(articles))):
        file = folder / (f"{name}.gz" if packed else name)
        file.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
        out = folder / f"{name}.yaml"
        ended = command("init", "--train", file.name, "--model", "scratch", "--out", str(out))
        assert ended.code == 0
        settings = load_settings(out)
        assert settings.data.dev is not None
        mode = settings.data.on_mismatch
        assert mode == ("repair" if name.startswith("raw") else "stop")
        files = [*settings.data.train, *settings.data.dev]
        made = {item.id: item for item in read_examples(files, on_mismatch=mode)}
        whole = {item.id: item for item in read_examples([file], on_mismatch=mode)}
        assert made.keys() == whole.keys()
        assert all(made[key].answers == whole[key].answers for key in made)

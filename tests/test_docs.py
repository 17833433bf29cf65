"""Every page says what is so: its commands parse, its settings exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from lightwork.cli.main import app
from lightwork.settings import Settings
from lightwork.settings.describe import keys
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PROGRAM = typer.main.get_command(app)
OVERRIDE = re.compile(r"[a-z]+\.[a-z_]+=")
SETTING = re.compile(r"`([a-z]+\.[a-z_0-9]+)(?:=[^`]*)?`")


def commands(text: str) -> list[str]:
    """All ``lightwork …`` commands of a page, in its blocks and in its sentences."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    spans = re.findall(
        r"`((?:[\w./-]*/)?lightwork [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)
    )
    found = [line for line in lines if re.match(r"\S*\blightwork [a-z-]", line)]
    found += [line for line in lines if " -m lightwork " in line]
    return [*found, *spans]


def test_there_are_commands_to_check() -> None:
    assert len(commands((ROOT / "README.md").read_text(encoding="utf-8"))) >= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one(page: Path) -> None:
    known = PROGRAM.commands  # type: ignore[attr-defined]
    for command in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(command.replace("…", ""), comments=True)
        words = words[words.index("lightwork") + 1 :] if "lightwork" in words else words[1:]
        name, *arguments = words
        if not arguments or "|" in arguments:  # only named, or several in a row
            assert {word for word in words if word not in ("|", "--version")} <= set(known), command
            continue
        assert name in known, command
        with known[name].make_context(name, arguments) as context:
            given = [value for value in context.params.values() if isinstance(value, list)]
        named = {
            text.partition("=")[0] for texts in given for text in texts if OVERRIDE.match(text)
        }
        assert named <= set(keys(Settings)), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_exists(page: Path) -> None:
    sections = {name.partition(".")[0] for name in keys(Settings)}
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    named = {name for name in SETTING.findall(text) if name.partition(".")[0] in sections}
    files = {name for name in named if name.rpartition(".")[2] in ("py", "json", "md", "yaml")}
    assert named - files <= set(keys(Settings))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target

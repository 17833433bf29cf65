"""Every page says what is so: its commands parse, its settings exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lightwork.cli.main import app
from lightwork.settings import Settings
from lightwork.settings.describe import keys
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
KNOWN = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OVERRIDE = re.compile(r"[a-z]+\.[a-z_]+=")
SETTING = re.compile(r"`([a-z]+\.[a-z_0-9]+)(?:=[^`]*)?`")


def commands(text: str) -> list[str]:
    """All ``lightwork …`` commands in the blocks of a page."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.search(r"^\S*\blightwork [a-z-]| -m lightwork ", line)]


def mentioned(text: str) -> list[str]:
    """Those in its sentences, which may leave out what is not spoken of."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"`((?:[\w./-]*/)?lightwork [^`\n]+)`", plain)


def words_of(command: str) -> list[str]:
    """What follows ``lightwork``."""
    words = shlex.split(command.replace("…", ""), comments=True)
    first = next(i for i, word in enumerate(words) if word.rpartition("/")[2] == "lightwork")
    return words[first + 1 :]


def subcommands(command: Any) -> list[Any]:
    """Of a command that is a group; otherwise none."""
    return list(getattr(command, "commands", {}).values())


def test_there_are_commands_to_check() -> None:
    assert len(commands((ROOT / "README.md").read_text(encoding="utf-8"))) >= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_one(page: Path) -> None:
    for command in commands(page.read_text(encoding="utf-8")):
        name, *arguments = words_of(command)
        assert name in KNOWN, command
        known = KNOWN[name]
        if subcommands(known):
            name, *arguments = arguments
            (known,) = (each for each in subcommands(known) if each.name == name)
        with known.make_context(name, arguments) as context:
            given = [value for value in context.params.values() if isinstance(value, list)]
        named = {
            text.partition("=")[0] for texts in given for text in texts if OVERRIDE.match(text)
        }
        assert named <= set(keys(Settings)), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_spoken_of_exists(page: Path) -> None:
    for command in mentioned(page.read_text(encoding="utf-8")):
        words = words_of(command)
        named = [word for word in words if word in KNOWN]
        assert named or words[0].startswith("-"), command
        meant = [each for name in named for each in (KNOWN[name], *subcommands(KNOWN[name]))]
        options = {opt for one in meant for param in one.params for opt in param.opts}
        assert {word for word in words if word.startswith("-")} <= options | {"--version"}, command


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

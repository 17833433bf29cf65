"""``lightwork bench sync``: what is started, and what it measures on real ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from benchmarks.namespaces import missing, network, run_ranks
from benchmarks.synthetic import Options, write
from lightwork.comm.supervisor import Launch
from lightwork.settings import load_settings
from lightwork.settings.running import SyncSettings
from tests.cli.conftest import Assembly, Command
from tests.conftest import ROOT

STRATEGIES = get_args(SyncSettings.model_fields["strategy"].annotation)
SETTINGS = """
data: {train: train.json, cache: cache, max_length: 64, stride: 8, max_question_length: 32}
model: {source: scratch, scratch_layers: 2, scratch_width: 64, scratch_heads: 2,
        scratch_vocabulary: 4000}
train: {batch_size: 4, micro_batch_tokens: 2048}
launch: {device: cpu, threads: 1}
"""


def test_ranks_get_settings_and_options(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Launch, str]] = []

    def supervise(launch: Launch) -> int:
        asked.append(
            (launch, load_settings(Path(launch.command[5]) / "settings.yaml").sync.strategy)
        )
        return 0

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    words = ["s.yaml", "sync.strategy=tree", "--ranks", "3", "--seconds", "2", "--json"]
    assert command("bench", "sync", *words, "--plot", "p.html").code == 0
    ((launch, strategy),) = asked
    assert (launch.ranks, strategy) == (3, "tree")
    assert launch.command[3:5] == ("bench", "sync")
    plot = str(folder / "p.html")
    assert launch.command[6:] == ("--seconds=2.0", "--plot", plot, "--json")
    assert not Path(launch.command[5]).exists()


def test_without_settings_it_is_the_sample(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    kept: list[Any] = []

    def supervise(launch: Launch) -> int:
        kept.append(load_settings(Path(launch.command[5]) / "settings.yaml"))
        return 0

    monkeypatch.setattr("lightwork.cli.launching.supervise", supervise)
    assert command("bench", "sync", "train.batch_size=8", "--ranks", "2").code == 0
    (settings,) = kept
    assert settings.train.batch_size == 8
    assert settings.model.scratch_width == 128
    assert settings.data.train[0].is_file()


@pytest.mark.parametrize("as_json", [False, True])
def test_one_rank_has_nothing_to_exchange(
    folder: Path, command: Command, launches: list[Launch], as_json: bool
) -> None:
    ended = command("bench", "sync", "s.yaml", *(["--json"] if as_json else []))
    assert ended.code == 0
    assert "one rank: there is nothing to exchange. Give --ranks 2 or more" in ended.out
    assert not as_json or json.loads(ended.out)["ways"] == []
    assert launches == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope.yaml"], "does not exist"),
        (["s.yaml", "sync.strategy=rings"], "sync.strategy"),
        (["s.yaml", "--plot", "no/p.html"], "lies in a folder that does not exist; name a file"),
        (["s.yaml", "--plot", "."], "is a folder; name a file"),
        (["s.yaml", "--ranks", "2", "launch.device=cuda"], "no GPU is visible"),
    ],
)
def test_mistakes_are_told_at_once(
    folder: Path, command: Command, launches: list[Launch], words: list[str], says: str
) -> None:
    ended = command("bench", "sync", *words)
    assert ended.code == 2
    assert says in ended.err
    assert launches == []


def test_a_rank_of_another_launcher_measures(
    folder: Path, command: Command, assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    command("bench", "sync", "s.yaml", "--seconds", "3")
    ((name, (_, used, *asked)),) = assembly.calls
    assert (name, asked) == ("run_bench_sync", [3.0, False, None])
    assert not used.exists(), "it was for the moment"
    ended = command("bench", "sync", "s.yaml", "--ranks", "2")
    assert ended.code == 2
    assert "--ranks 2 was given" in ended.err


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with settings, data, and an empty place for temporary files."""
    (tmp_path / "mine.yaml").write_text(SETTINGS)
    write(tmp_path / "train.json", Options(questions=200, context_words=40))  # of many words
    (tmp_path / "tmp").mkdir()
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "TMPDIR": str(place / "tmp"), "PYTHONPATH": paths}


def measured(place: Path, *words: str) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", *words, "--json", "--seconds", "3"],
        cwd=place, env=environment(place), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr
    assert [path.name for path in (place / "tmp").glob("lightwork*")] == []
    return dict(json.loads(ended.stdout))


def check(found: dict[str, Any], ranks: int) -> None:
    """Everything was measured, and agrees with itself."""
    assert found["ranks"] == ranks
    assert len(found["link"]["bytes_per_s"]) == ranks
    ways = {(one["strategy"], one["rows"]): one for one in found["ways"]}
    wanted = {(name, rows) for name in STRATEGIES for rows in (True, False) if name != "ddp"}
    assert set(ways) == wanted | ({("ddp", False)} if "ddp" not in found["left_out"] else set())
    for (name, rows), one in ways.items():
        whole = ways["all_reduce", False]
        if rows:
            assert one["summed_bytes"] < whole["summed_bytes"], name
        else:
            assert one["summed_bytes"] == whole["summed_bytes"] <= found["gradient_bytes"], name
        least = 2 * (ranks - 1) / ranks * one["summed_bytes"]
        assert one["sent_bytes"] >= 0.999 * least, name
        assert (one["exposed_s"] == []) == (one["transfer_s"] == []) == (name == "ddp"), name
        assert len(one["whole_s"]) >= 3
        for exposed_s, whole_s in zip(one["exposed_s"], one["whole_s"], strict=name != "ddp"):
            assert 0 <= exposed_s <= whole_s, name
    now = found["ways"][found["current"]]
    assert (now["strategy"], now["rows"], now["asked"]) == ("all_reduce", False, "auto")


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["lightwork", "bench", "sync", "mine.yaml", "--ranks", "2", "--plot", "page.html"],
        pytest.param(
            ["torch.distributed.run", "--nproc-per-node", "2", "-m", "lightwork", "bench", "sync",
             "mine.yaml", "--plot", "page.html"], marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_every_way_is_measured_on_two_ranks(place: Path, words: list[str]) -> None:
    check(measured(place, *words), 2)
    assert "█" in (place / "page.html").read_text(encoding="utf-8")
    assert not list(place.glob("runs"))


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.processes
@pytest.mark.long
def test_on_a_slow_line_the_advice_is_another(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    near = measured(place, "lightwork", "bench", "sync", "mine.yaml", "sync.rows=off",
                    "--ranks", "2")  # fmt: skip
    monkeypatch.chdir(place)
    words = ["lightwork", "bench", "sync", "mine.yaml", "sync.rows=off", "--json", "--seconds", "3"]
    with network(2, 10.0) as net:
        run_ranks(net, words, {**environment(place), "TORCH_CPP_LOG_LEVEL": "ERROR"}, 300)
    far = json.loads(capfd.readouterr().out)
    assert far["link"]["bytes_per_s"][0] < 0.1 * near["link"]["bytes_per_s"][0]
    assert far["link"]["bytes_per_s"][0] < 1.3 * 10e6 / 8, "up to where it has arrived"
    whole, alone = (min(far["ways"][0][name]) for name in ("whole_s", "transfer_s"))
    assert min(far["compute_s"]) < whole - alone / 2, "computing sends nothing"
    assert not near["advice"]["change"]
    assert "the line between ranks is the limit" not in near["advice"]["words"]
    assert far["advice"]["matters"]
    assert far["advice"]["settings"]["rows"] == "on", "by itself it leaves small tables whole"
    assert "sync.rows=on: the line between ranks is the limit" in far["advice"]["words"]

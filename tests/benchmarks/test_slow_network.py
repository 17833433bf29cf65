"""The slow network: what its tables say, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from benchmarks import slow_network
from benchmarks.namespaces import Network, missing, network, run_ranks
from benchmarks.slow_network import plan, stream
from benchmarks.slow_tables import bound_s, document, ideal_s
from benchmarks.transferring import Contender
from lightwork.assembly.strategies import Chosen, gradient_sync, strategy_of
from lightwork.comm.group import Group
from lightwork.errors import LightworkError
from lightwork.sync.all_reduce import RankSums
from lightwork.sync.buckets import GradientBuckets
from tests.conftest import ROOT
from tests.ranks import run_as_threads

needs_root = pytest.mark.skipif(missing() is not None, reason=str(missing()))
HELD = """
import sys, time
from benchmarks.namespaces import network
with network(2, 100) as net:
    print(*net.names, flush=True)
    time.sleep(600)
"""


class Deaf:
    """A Strategy that leaves every rank its own gradient."""

    name = "deaf"

    def open(self, flat: Tensor) -> RankSums:
        return RankSums(flat, Group.alone().all_reduce)


def results() -> dict[str, Any]:
    """Of a made run: a ring at 1.04 of the ideal, a tree at 1.3."""
    strategies = {
        "ring": {"seconds": [1.56, 1.50, 1.60], "sent_bytes": [150.0] * 4},
        "tree": {"seconds": [1.95], "sent_bytes": [150.0] * 4},
    }
    facts = {"loss": 2.0, "step_s": 3.0, "exposed_s": 1.2, "hidden_s": 0.5, "sent_bytes": 60,
             "ready_s": [0.5, 1.0], "bucket_bytes": [40, 20]}  # fmt: skip
    training = {
        "steps": {"plain-ddp": [{"step_s": 6.0}] * 3, "all_reduce": [facts] * 3},
        "apart": {"plain-ddp": 0.0, "all_reduce": 3e-7},
        "batch": 16,
        "stream_bytes_per_s": 40.0,
    }
    transfer = {"ranks": 4, "bytes": 100, "stream_s": [1.0], "strategies": strategies}
    return {"command": "c", "machine": {}, "versions": {}, "network": {}, "transfers": [transfer],
            "training": training}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has network namespaces")
def test_where_there_can_be_no_namespaces_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert missing() == "ip and tc not found (Debian: apt-get install iproute2)"
    monkeypatch.setattr("shutil.which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "making network namespaces needs root"


def test_the_ideal_is_what_a_stream_needs_for_the_least_that_travels() -> None:
    assert ideal_s({"ranks": 4, "stream_s": [2.0, 1.0, 9.0]}) == 3.0
    assert ideal_s({"ranks": 2, "stream_s": [2.0]}) == 2.0


def test_the_bound_is_of_the_bucket_that_holds_up_most() -> None:
    late = {"bucket_bytes": [10, 10, 100], "ready_s": [1.0, 2.0, 3.0]}
    assert bound_s(late, 10.0) == 13.0  # the last alone: 3 + 100 / 10; 1 + 120 / 10 is as much
    early = {"bucket_bytes": [100, 10, 10], "ready_s": [1.0, 2.0, 3.0]}
    assert bound_s(early, 10.0) == 13.0  # the first is still under way when the last is ready
    idle = {"bucket_bytes": [1, 1, 10], "ready_s": [1.0, 2.0, 3.0]}
    assert bound_s(idle, 10.0) == 4.0


def test_tables_say_what_is_met_and_what_is_not() -> None:
    text = document(results())
    assert "so the ideal is 1.500 s" in text
    assert (
        "| ring | 1.560 (1.500 – 1.600) | 1.040 (1.000 – 1.067) | 1.50 | at most 1.05: met |"
        in text
    )
    assert "1.300 (1.300 – 1.300) | 1.50 | at most 1.2: missed |" in text
    # 0.5 + 60 / 40 = 2.0, which is 1.0 after backward; 1.2 of exchange showed.
    exposed = ["1.200 (1.200 – 1.200)", "1.000 (1.000 – 1.000)", "1.200 (1.200 – 1.200)"]
    assert f"| {' | '.join(exposed)} |" in text
    assert ": all learned the same." in text
    other = results()
    other["training"]["apart"]["plain-ddp"] = 1e-2
    assert "NOT all learned the same" in document(other)


@pytest.mark.parametrize("name", ["all_reduce", "ring", "tree"])
def test_a_transfer_that_gives_another_sum_is_no_transfer(name: str) -> None:
    def rank(group: Group) -> tuple[int, str]:
        use = Chosen(name, group.size, bucket_bytes=1 << 20)
        right = Contender(
            group,
            gradient_sync(use, group, strategy_of(name, group, group.size), (), True),
            3_000_000,
        )
        assert right.exchange() > 0
        lost = Contender(group, GradientBuckets(Deaf(), 1 << 20), 3_000_000)
        with pytest.raises(LightworkError) as caught:
            lost.exchange()
        return right.sent_bytes, str(caught.value)

    assert run_as_threads(2, rank) == [(3_000_000, "deaf gave another sum than 3")] * 2


def test_plans_hold_the_numbers_of_ranks_that_the_goals_name() -> None:
    assert plan([2, 3, 4, 8], quick=False)[-1] == (4, slow_network.LARGE)
    assert [ranks for ranks, _ in plan([2, 3, 4, 8], quick=True)] == [2, 3, 4, 8]
    assert len(plan([2], quick=False)) == 1


def test_elsewhere_it_is_skipped_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(slow_network, "missing", lambda: "making network namespaces needs root")
    out = tmp_path / "out.json"
    slow_network.main(["--out", str(out)])
    assert capsys.readouterr().out == (
        "slow_network: skipped, making network namespaces needs root\n"
    )
    assert not out.exists()


def test_the_page_and_the_makefile_start_it() -> None:
    page = (ROOT / "docs/sync.md").read_text(encoding="utf-8")
    assert "\nmake slow-network\n" in page
    shown = re.findall(r"^python -m benchmarks.slow_network (.*)$", page, re.MULTILINE)
    assert len(shown) == 3
    for line in shown:
        slow_network.parser().parse_intermixed_args(line.split())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^slow-network: setup\n\t.* -m benchmarks.slow_network ", makefile, re.M)


@needs_root
def test_mistakes_are_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"one rank sends nothing; .*--rate 0.*no such folder"):
        slow_network.main(["--ranks", "1,2", "--rate", "0", "--out", str(tmp_path / "no/o.json")])


def left(names: list[str]) -> list[str]:
    """Namespaces and interfaces that are still there."""
    prefix = names[0].removesuffix("n0")
    shown = [
        subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
        for words in (["netns", "list"], ["-o", "link"])
    ]
    return [line for text in shown for line in text.splitlines() if prefix in line]


def limits(net: Network) -> list[str]:
    """What stands before both ends of the line of the last namespace."""
    outside = net.names[-1].replace("n", "v")
    ends = [
        ["-n", net.names[-1], *"qdisc show dev line".split()],
        ["qdisc", "show", "dev", outside],
    ]
    shown = [
        subprocess.run(["tc", *words], capture_output=True, text=True, check=True).stdout
        for words in ends
    ]
    return [text.split()[1] for text in shown]


@needs_root
def test_lines_are_as_slow_as_they_are_told_and_go_after_a_failure() -> None:
    seconds = {}

    def failing(rate: float) -> None:
        with network(2, rate) as net:
            seconds[rate] = min(stream(net, 1_000_000))
            names.extend(net.names)
            assert left(names)
            assert limits(net) == 2 * ["tbf"], "the way out and the way in"
            run_ranks(net, ["benchmarks.no_such_module"], dict(os.environ), 60)

    for rate in (40.0, 160.0):
        names: list[str] = []
        with pytest.raises(LightworkError, match="the ranks ended"):
            failing(rate)
        assert not left(names)
    assert 3 < seconds[40.0] / seconds[160.0] < 5


@needs_root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    held = subprocess.Popen(
        [sys.executable, "-c", HELD], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert held.stdout is not None
    with held.stdout:
        names = held.stdout.readline().split()
    assert len(left(names)) >= 5, "two namespaces, a bridge, two lines"
    held.send_signal(number)
    assert held.wait(30) != 0
    deadline_s = time.monotonic() + 5
    while left(names) and time.monotonic() < deadline_s:
        time.sleep(0.1)  # the kernel takes a namespace down a moment after its name
    assert not left(names)


@needs_root
@pytest.mark.long
@pytest.mark.processes
def test_the_whole_in_miniature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    slow_network.main(["--quick", "--ranks", "2,3", "--batch", "4", "--out", str(out)])
    told = capsys.readouterr().out
    assert "#### transfer: 3 ranks, 4 MB" in told
    assert ": all learned the same." in told
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["network"]["net.ipv4.tcp_congestion_control"]
    for transfer in found["transfers"]:
        for name, one in transfer["strategies"].items():
            assert min(one["seconds"]) > 0.8 * ideal_s(transfer), name
    rows, whole = (found["training"]["steps"][n][0] for n in ("all_reduce", "all_reduce-whole"))
    assert sum(rows["bucket_bytes"]) == rows["sent_bytes"] < whole["sent_bytes"]
    assert sum(whole["bucket_bytes"]) == whole["sent_bytes"]

"""Exchange in words: what advice follows from what was measured."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lightwork.report import exchange_plot
from lightwork.report.exchange import Exchange, Link, Way, columns, show
from lightwork.report.exchange_advice import advise

MB = 1_000_000


def way(strategy: str, exposed_s: float, rows: bool = True, **other: Any) -> Way:
    """That shows for so long beside a second of computing, and takes 2 seconds alone."""
    known = strategy != "ddp"
    values: dict[str, Any] = {
        "bucket_bytes": 8 << 20,
        "summed_bytes": 40.0 * MB if rows else 80.0 * MB,
        "sent_bytes": 60.0 * MB,
        "whole_s": [1 + exposed_s],
        "exposed_s": [exposed_s] * 3 if known else [],
        "transfer_s": [2.0, 1.9, 2.4] if known else [],
    }
    asked = "auto" if rows else "off"
    return Way(strategy=strategy, rows=rows and known, asked=asked, **values | other)


def exchange(*ways: Way, bytes_per_s: float = 40.0 * MB, current: int = 0) -> Exchange:
    """On four ranks; the line from the second to the third is the slowest."""
    link = Link([2 * bytes_per_s, bytes_per_s, 3 * bytes_per_s, 2 * bytes_per_s], 1e-4)
    return Exchange(4, "4 ranks", 80 * MB, link, [1.0, 0.9, 1.2], list(ways), current, {})


def test_what_hides_is_left_as_it_is() -> None:
    found = advise(exchange(way("tree", 0.2), way("all_reduce", 0.01)))
    assert (found.change, found.matters) == (False, False)
    assert found.settings["strategy"] == "tree"
    assert found.words == (
        "leave sync.strategy=tree sync.rows=auto: exchange hides behind backward. What shows of it "
        "is 0.2 s of a step of 1.2 s (17%), so no other way could make training more than 1.20 "
        "times as fast"
    )


def test_on_a_slow_line_the_fastest_way_is_named_and_why() -> None:
    now, ring = way("all_reduce", 3.0, rows=False), way("ring", 1.0)
    found = advise(exchange(now, way("all_reduce", 1.3), ring, way("tree", 1.4)))
    assert (found.change, found.matters) == (True, True)
    assert found.settings == {"strategy": "ring", "rows": "auto", "bucket_bytes": 8 << 20}
    assert found.words == (
        "set sync.strategy=ring sync.rows=auto: the line between ranks is the limit, its 40.0 MB/s "
        "need at least 3 s for 80.0 MB of gradients beside 1 s of computing; so a step takes 2 s "
        "instead of the 4 s of sync.strategy=all_reduce sync.rows=off"
    )


def test_of_equally_long_ones_the_plainest_is_named() -> None:
    now = way("all_reduce", 3.0, rows=False)
    ways = [now, way("tree", 1.0), way("ring", 1.01), way("all_reduce", 1.08)]
    assert advise(exchange(*ways)).settings["strategy"] == "all_reduce"
    ways[-1] = way("all_reduce", 1.2)
    assert advise(exchange(*ways)).settings["strategy"] == "ring"
    assert advise(exchange(*ways, current=1)).change is False, "what is set is as good"


def test_where_no_way_is_faster_a_larger_batch_is_left() -> None:
    found = advise(exchange(way("ring", 1.0), way("all_reduce", 1.0)))
    assert (found.change, found.matters) == (False, True)
    assert "no other way is faster here. A larger train.batch_size" in found.words


def test_larger_buckets_are_advised_alone() -> None:
    now, larger = way("all_reduce", 1.0), way("all_reduce", 0.5, bucket_bytes=32 << 20)
    found = advise(exchange(now, larger, bytes_per_s=4000.0 * MB))
    assert found.settings["bucket_bytes"] == 32 << 20
    assert found.words == (
        "set sync.strategy=all_reduce sync.bucket_bytes=32MiB: messages cost 2 s here, although "
        "the line could carry them in 0.015 s; so a step takes 1.5 s instead of the 2 s of "
        "sync.strategy=all_reduce sync.bucket_bytes=8MiB"
    )


def test_ddp_is_a_yardstick_and_never_advised() -> None:
    now = way("all_reduce", 3.0)
    assert advise(exchange(now, way("ddp", 0.0))).settings["strategy"] == "all_reduce"
    found = advise(exchange(way("ddp", 0.0), now))
    assert "not known" in found.words
    assert not found.change


def test_bus_bandwidth_and_ideal_are_of_what_each_rank_must_send() -> None:
    found = exchange(way("ring", 1.0), way("ddp", 1.0, rows=False))
    assert found.factor == 1.5
    assert found.ideal_s(found.ways[0]) == 1.5
    assert found.bus_bytes_per_s(found.ways[0]) == pytest.approx(30.0 * MB)
    assert found.bus_bytes_per_s(found.ways[1]) is None
    cells = {column.title: column.cells for column in columns(found)}
    assert cells["strategy"] == ["ring, rows", "ddp"]
    assert cells["of the ideal"] == ["75%", "-"]
    assert cells["alone, ms"] == ["2,000.0 (1,900.0 – 2,400.0)", "-"]
    assert cells["buckets"] == ["8MiB", "8MiB"]


def test_everything_is_shown() -> None:
    found = replace(exchange(way("ring", 1.0)), left_out={"ddp": "two parameters rest"})
    console = Console(file=io.StringIO(), width=200)
    show(console, found, "leave it")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "40.0 MB/s, a message takes 100 µs; the slowest is 1 to 2, the fastest has 120" in text
    assert "ddp was not measured: two parameters rest" in text
    assert text.endswith("\nleave it\n")
    told = json.loads(json.dumps(found.as_json()))
    assert told["ways"][0]["ideal_s"] == 1.5
    assert told["left_out"] == {"ddp": "two parameters rest"}


def test_bars_are_as_long_as_steps(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("before")
    found = exchange(way("ring", 1.0), way("tree", 3.0))
    exchange_plot.write(page, found, "set <ring>")
    text = page.read_text(encoding="utf-8")
    assert text.count("█") - 2 == 30 + 60, "and the two of the legend"
    assert "set &lt;ring&gt;" in text
    assert list(tmp_path.iterdir()) == [page]

"""The drawing inside the report: every setting in its place, nothing fetched."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from advisor.advice.tradeoff import Spot, TradeOff
from advisor.report.tradeoff import trade_off_svg
from advisor.terms.measurement import Headroom
from advisor.terms.target import parse_target

SPOTS = (
    Spot(0, (), 200.0, 80.0, Headroom(1.0, 1.5, 1.2)),
    Spot(3, ("--max-num-seqs 8 -> <64>",), 400.0, 20.0, None, on_curve=True),
)
TRADE_OFF = TradeOff(1.0, 95.0, 99.0, SPOTS)
TARGETS = (parse_target("ttft:p95<=300ms"), parse_target("itl:p99<=1s"))


def test_points_lie_where_their_latencies_say() -> None:
    svg = trade_off_svg(TRADE_OFF, TARGETS, "a < b")
    tree = ElementTree.fromstring(svg)
    circles = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in tree.findall("circle")]
    (x_slow, y_slow), (x_fast, y_fast) = circles
    left, bottom = 70, 360
    # axes end at 500 ms and 100 ms
    assert (x_fast - left) / (x_slow - left) == pytest.approx(2, rel=0.01)
    assert (bottom - y_slow) / (bottom - y_fast) == pytest.approx(4, rel=0.01)
    assert [c.get("fill") == "none" for c in tree.findall("circle")] == [True, False]
    texts = [text.text for text in tree.findall("text")]
    for said in ("a < b", "trial 0: 1 .. 1.5", "trial 3: -", "TTFT p95, ms", "ITL p99, ms", "500"):
        assert said in texts
    assert [each.text for each in tree.findall("circle/title")] == [
        "the current setting",
        "--max-num-seqs 8 -> <64>",
    ]
    # the limit of TTFT lies inside, that of ITL far above
    dashed = [line for line in tree.findall("line") if line.get("stroke-dasharray") != "none"]
    assert len(dashed) == 1
    assert dashed[0].get("x1") == dashed[0].get("x2")
    assert not re.search(r"https?:|<script|href", svg)


def test_what_cannot_be_drawn_is_left_out() -> None:
    lost = replace(SPOTS[0], ttft_ms=math.inf)
    assert trade_off_svg(replace(TRADE_OFF, spots=(lost, SPOTS[1])), TARGETS, "t") == ""
    assert trade_off_svg(replace(TRADE_OFF, spots=()), (), "t") == ""
    drawn = trade_off_svg(replace(TRADE_OFF, spots=(*SPOTS, lost)), (), "t")
    assert drawn.count("<circle") == 2
    zero = replace(SPOTS[0], ttft_ms=0.0, itl_ms=0.0)
    assert trade_off_svg(replace(TRADE_OFF, spots=(zero, zero)), (), "t").count("<circle") == 2

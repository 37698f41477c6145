"""TTFT against ITL of all settings measured, as a drawing inside a page.

Drawn here and not by Plotly: the report is a file that runs no script and fetches nothing, so that
it can be mailed, and opened where scripts are forbidden.
"""

import math
from collections.abc import Sequence
from html import escape

from advisor.advice.tradeoff import Spot, TradeOff
from advisor.terms.target import Metric, Target

_WIDTH, _HEIGHT = 760, 420
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 40, 160, 60
_TICKS = 5


def trade_off_svg(trade_off: TradeOff, targets: Sequence[Target], title: str) -> str:
    """An `<svg>` element; empty with fewer than two settings of finite latencies.

    Full circles: no other setting is as good in TTFT, ITL and headroom. Broken lines: the limits.
    """
    spots = [s for s in trade_off.spots if math.isfinite(s.ttft_ms) and math.isfinite(s.itl_ms)]
    if len(spots) < 2:
        return ""
    x_limit = _limit_ms(targets, Metric.TTFT, trade_off.ttft_percentile)
    y_limit = _limit_ms(targets, Metric.ITL, trade_off.itl_percentile)
    x_most = _round_up(max(spot.ttft_ms for spot in spots))
    y_most = _round_up(max(spot.itl_ms for spot in spots))
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        _text(_LEFT, _TOP - 20, title),
        *_axes(x_most, y_most, trade_off),
        *_limits(x_limit, y_limit, x_most, y_most),
        *(_circle(spot, x_most, y_most) for spot in spots),
        "</svg>",
    ]
    return "\n".join(parts)


def _limit_ms(targets: Sequence[Target], metric: Metric, percentile: float) -> float | None:
    for target in targets:
        if (target.metric, target.percentile) == (metric, percentile) and not target.is_relative:
            return target.limit_ns / 1e6
    return None


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10 times a power of ten, for round ticks; 1e-3 at least."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _x(value: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / most


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / most


def _axes(x_most: float, y_most: float, trade_off: TradeOff) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [_line(_LEFT, bottom, right, bottom), _line(_LEFT, _TOP, _LEFT, bottom)]
    for tick in range(_TICKS + 1):
        x_value, y_value = x_most * tick / _TICKS, y_most * tick / _TICKS
        x, y = _x(x_value, x_most), _y(y_value, y_most)
        parts += [_line(x, bottom, x, bottom + 5), _text(x, bottom + 18, f"{x_value:g}", "middle")]
        parts += [_line(_LEFT - 5, y, _LEFT, y), _text(_LEFT - 8, y + 4, f"{y_value:g}", "end")]
    middle = (_LEFT + right) / 2
    parts.append(_text(middle, bottom + 40, f"TTFT p{trade_off.ttft_percentile:g}, ms", "middle"))
    parts.append(_text(_LEFT, _TOP - 4, f"ITL p{trade_off.itl_percentile:g}, ms", "middle"))
    return parts


def _limits(
    x_limit: float | None, y_limit: float | None, x_most: float, y_most: float
) -> list[str]:
    """Those that lie inside the drawing."""
    parts = []
    if x_limit is not None and x_limit <= x_most:
        x = _x(x_limit, x_most)
        parts.append(_line(x, _TOP, x, _HEIGHT - _BOTTOM, "6 4"))
    if y_limit is not None and y_limit <= y_most:
        y = _y(y_limit, y_most)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, "6 4"))
    return parts


def _circle(spot: Spot, x_most: float, y_most: float) -> str:
    x, y = _x(spot.ttft_ms, x_most), _y(spot.itl_ms, y_most)
    label = f"trial {spot.trial}: {spot.headroom or '-'}"
    about = ", ".join(spot.changes) or "the current setting"
    fill = "#1b6ac9" if spot.on_curve else "none"
    circle = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="#1b6ac9">'
        f"<title>{escape(about)}</title></circle>"
    )
    return circle + _text(x + 9, y + 4, label)


def _line(x1: float, y1: float, x2: float, y2: float, dashes: str = "none") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#444" '
        f'stroke-dasharray="{dashes}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'

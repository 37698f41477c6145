"""The timeline of a simulated replay as one HTML file, or as Parquet."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from advisor.report.parquet import arrow
from advisor.sim import Timeline
from advisor.terms.errors import InputError

#: Points of a plotted line: more are thinned out, which a screen cannot show anyway.
_MOST_POINTS = 4000


def check_timeline(path: Path) -> None:
    """Before anything is simulated. Raises InputError for a file that cannot be written."""
    if path.suffix not in (".html", ".parquet"):
        raise InputError(f"timeline {path}: the name must end in .html or .parquet")
    if not path.absolute().parent.is_dir():
        raise InputError(f"timeline {path}: the folder does not exist")
    if path.suffix == ".parquet":
        arrow(f"timeline {path}", "a name that ends in .html")


def write_timeline(path: Path, timeline: Timeline, title: str) -> None:
    """Running, waiting, KV use and the composition of every step, over time.

    Parquet has one row a step, the columns of `Timeline`, and blocks that can be held at most in
    its metadata. Raises InputError when it cannot be written.
    """
    try:
        if path.suffix == ".html":
            # Self-contained: the plotting library is inside, nothing is fetched.
            path.write_text(_figure(timeline, title).to_html(), encoding="utf-8")
        else:
            _write_table(path, timeline)
    except OSError as exc:
        raise InputError(f"timeline {path}: cannot be written: {exc.strerror}") from exc


def _write_table(path: Path, timeline: Timeline) -> None:
    pa, pq = arrow(f"timeline {path}", "a name that ends in .html")
    names = [each.name for each in fields(timeline) if each.name != "num_usable_blocks"]
    table = pa.table({name: getattr(timeline, name) for name in names})
    blocks = {"num_usable_blocks": str(timeline.num_usable_blocks)}
    pq.write_table(table.replace_schema_metadata(blocks), path)


def _figure(timeline: Timeline, title: str) -> go.Figure:
    every = max(1, -(-len(timeline) // _MOST_POINTS))
    seconds = timeline.step_end_ns[::every] / 1e9
    decodes = timeline.tokens - timeline.prompt_tokens
    rows: dict[str, dict[str, NDArray[Any]]] = {
        "requests": {"running": timeline.running, "waiting": timeline.waiting},
        "KV cache in use, %": {"KV cache": 100 * timeline.kv_cache_usage},
        "tokens in a step": {"of prompts": timeline.prompt_tokens, "generated": decodes},
        "step, ms": {"step": timeline.busy_ns / 1e6},
    }
    figure = make_subplots(rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=0.04)
    for row, (label, lines) in enumerate(rows.items(), 1):
        for name, values in lines.items():
            line = go.Scattergl(x=seconds, y=values[::every], name=name, mode="lines")
            figure.add_trace(line, row=row, col=1)
        figure.update_yaxes(title_text=label, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="seconds", row=len(rows), col=1)
    figure.update_layout(title=title, height=900, hovermode="x unified")
    return figure

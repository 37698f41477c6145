"""A timeline as a page that stands alone, and as a table that reads back the same."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from advisor.report.timeline import check_timeline, write_timeline
from advisor.sim import Timeline
from advisor.terms.errors import InputError
from tests.unit.sim.loads import engine, play, poisson


@pytest.fixture(name="timeline", scope="module")
def _timeline() -> Timeline:
    return play(poisson(5, 30, 500, 40), engine()).timeline


def test_parquet_has_every_column_of_every_step(tmp_path: Path, timeline: Timeline) -> None:
    path = tmp_path / "steps.parquet"
    write_timeline(path, timeline, "title")
    table = pq.read_table(path)
    assert table.num_rows == len(timeline)
    np.testing.assert_array_equal(table["step_end_ns"].to_numpy(), timeline.step_end_ns)
    np.testing.assert_array_equal(table["prompt_tokens"].to_numpy(), timeline.prompt_tokens)
    assert int(table.schema.metadata[b"num_usable_blocks"]) == timeline.num_usable_blocks


def test_html_names_its_curves_and_fetches_nothing(tmp_path: Path, timeline: Timeline) -> None:
    path = tmp_path / "steps.html"
    write_timeline(path, timeline, "one setting")
    page = path.read_text(encoding="utf-8")
    for word in ("one setting", "running", "waiting", "KV cache in use", "of prompts"):
        assert word in page
    assert '<script src="http' not in page


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("steps.csv", "the name must end in .html or .parquet"),
        ("none/steps.html", "the folder does not exist"),
    ],
)
def test_a_name_that_cannot_be_written_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        check_timeline(tmp_path / name)


def test_a_folder_in_the_way_is_one_line(tmp_path: Path, timeline: Timeline) -> None:
    (tmp_path / "steps.html").mkdir()
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_timeline(tmp_path / "steps.html", timeline, "title")

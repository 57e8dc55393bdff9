"""A view carries all that is known of it: one that is registered here alone is seen everywhere."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from contests import report_of
from ragtrial.report.model import write_folder
from ragtrial.report.schema import Part, WarningPart
from ragtrial.views.sections import VIEWS, all_views, plot_names
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput
from ragtrial.views.sections.plots import new_figure
from ragtrial.views.table import Table
from small_experiment import Capture, ragtrial

VALUES = {"old": [0.5] * 12, "new": [0.75, 0.7] * 6}


class CountPart(Part):
    """How many queries there are."""

    queries: int


class CountView(View[CountPart]):
    """Counts the queries."""

    name, order = "counts", 45
    help = "How many queries each setting answers."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> CountPart:
        return CountPart(queries=len(given.inputs.queries))

    def warnings(self, part: CountPart) -> Sequence[WarningPart]:
        return [WarningPart(code="counted", message="somebody counted.")]

    def summary_lines(self, part: CountPart) -> Sequence[str]:
        return [f"There are {part.queries} queries."]

    def blocks(self, part: CountPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        assert part
        yield _table(part)

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        return PageSection("Counted <here>", [("What was counted", _table(part))], ["in all"]) if part else None


def _table(part: CountPart) -> Table:
    return Table.of(["counted", "queries"], [["all", str(part.queries)]])


def _drawn(given: ViewInput) -> object:
    assert VIEWS["counts"].of(given.analysis) == CountPart(queries=12)
    return new_figure(1.0)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report, in a folder in which no view is registered but for this test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(VIEWS, "_members", dict(VIEWS.members()))
    VIEWS.register("counts")(CountView(tally=_drawn))  # type: ignore[arg-type]  # matplotlib may be missing
    rows = [{"query": f"q{number}", "docs": [], "grades": []} for number in range(1, 13)]
    write_folder(report_of(VALUES), tmp_path / "small", dict.fromkeys(VALUES, rows), [], {})
    return tmp_path


def test_its_option_table_part_summary_and_plot_are_offered(small: Path, capsys: Capture) -> None:
    shown = " ".join(ragtrial(capsys, "compare", "--help").out.split())
    assert "--counts How many queries each setting answers." in shown
    assert ragtrial(capsys, "compare", "small", "--counts", "--json").json["counts"] == {"queries": 12}
    assert ragtrial(capsys, "compare", "small", "--json").json["counts"] is None
    ragtrial(capsys, "compare", "small", "--counts", "--markdown", "found.md", "--junit", "found.xml")
    assert "There are 12 queries." in Path("found.md").read_text("utf-8")
    assert "There are 12 queries." in Path("found.xml").read_text("utf-8")
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    assert "tally" in plot_names()
    assert "tally" in ragtrial(capsys, "report", "--help").out
    assert ragtrial(capsys, "report", "small", "--plot", "tally").code == 0
    assert Path("tally.svg").read_text("utf-8").startswith("<?xml")
    made = ragtrial(capsys, "compare", "small", "--counts")
    assert "\n\ncounted  queries\nall           12\n" in made.out
    assert "There are 12 queries.\n" in made.out
    assert made.err == "\n1 warning:\n  somebody counted.\n"
    without = ragtrial(capsys, "compare", "small")
    assert "counted" not in without.out + without.err


def test_its_section_is_on_the_page_and_no_second_has_its_name(small: Path, capsys: Capture) -> None:
    assert ragtrial(capsys, "report", "small", "-o", "page.html").code == 0
    page = Path("page.html").read_text("utf-8")
    (part,) = re.findall(r"<details><summary><b>Counted &lt;here&gt;</b>.*?</details>\n", page, re.DOTALL)
    assert "<span>What was counted</span></summary>" in part
    assert '<td class="name">all</td><td class="number">12</td>' in part
    assert '<p class="mute">in all</p>' in part
    assert "<li>somebody counted.</li>" in page
    headings = re.findall(r"<summary><b>(.*?)</b>", page)
    assert headings.index("Comparisons") < headings.index("Counted &lt;here&gt;")
    with pytest.raises(ValueError, match=r"^view 'counts' is registered twice: "):
        VIEWS.register("counts")(CountView())


@pytest.mark.parametrize("name", VIEWS.names())
def test_every_view_is_registered_under_its_own_name_and_its_help_is_a_sentence(name: str) -> None:
    view = VIEWS[name]
    assert view.name == name
    assert not view.help or (view.help[0].isupper() and view.help.endswith("."))
    assert bool(view.help) or view.is_always_computed or not view.as_json(None)


def test_no_two_views_have_the_same_place_key_or_plot() -> None:
    orders = [view.order for view in all_views()]
    assert orders == sorted(set(orders))
    keys = [key for view in all_views() for key in view.as_json(None)]
    assert len(set(keys)) == len(keys)
    assert len(set(plot_names())) == len(plot_names())

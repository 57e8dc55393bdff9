"""Plots for papers: every number stands where the report says, the same bytes each time, and exact refusals."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from edited_reports import edit_report
from experiments import DOCUMENTS, write_experiment
from ragtrial import load_report, run_experiment
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.contest import ComparisonSet, contest_of
from ragtrial.comparison.queries.moves import QueryDifference, QueryDifferences, query_differences
from ragtrial.errors import PlotError
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.plots.drawing import draw, image, plot_names
from ragtrial.views.plots.style import _COLOURS, BETTER, NEUTRAL, WORSE, styled
from ragtrial.views.sections.costs_view import COSTS
from ragtrial.views.sections.effects_view import EFFECTS
from ragtrial.views.sections.queries_view import distribution
from ragtrial.views.sections.slices_view import SLICES
from scored_runs import scored_report
from small_experiment import ragtrial

SVG = "{http://www.w3.org/2000/svg}"
USE = f"{SVG}use"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a sweep: two sizes, two retrievers, a question for every two words."""
    words = {doc: text.split() for doc, text in DOCUMENTS.items()}
    pairs = [(doc, " ".join(its[place : place + 2])) for doc, its in words.items() for place in range(0, len(its), 2)]
    queries = [
        {"id": f"q{place}", "text": part, "relevant_docs": [{"doc": doc}], "tags": [doc.partition("/")[0]]}
        for place, (doc, part) in enumerate(pairs)
    ]
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}}
    made = write_experiment(
        tmp_path_factory.mktemp("plots"), queries=queries, retrievers=retrievers,
        sweep={"matrix": {"chunker.size": [40, 120]}},
        evaluators={"primary_metric": "ndcg@3", "order_unaware": {"k": [1, 3]}, "graded": {"k": [1, 2, 3]}},
    )  # fmt: skip
    return run_experiment(made.config()).folder


@pytest.fixture(scope="module")
def contest(folder: Path) -> ComparisonSet:
    return contest_of([str(folder)])


@pytest.fixture(scope="module")
def analysis(contest: ComparisonSet) -> Analysis:
    return analyse(contest, ComparisonOptions(), slices=True, axes=True, costs=True)


@dataclass
class Drawn:
    """An SVG that is read again."""

    root: ET.Element

    def texts(self) -> list[str]:
        return ["".join(text.itertext()) for text in self.root.iter(f"{SVG}text")]

    def group(self, name: str) -> ET.Element:
        found = self.root.find(f".//{SVG}g[@id='{name}']")
        assert found is not None, name
        return found

    def has(self, name: str) -> bool:
        return self.root.find(f".//{SVG}g[@id='{name}']") is not None

    def points(self, name: str) -> list[tuple[float, float]]:
        return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in self.group(name).iter(USE)]

    def corners(self, name: str) -> list[tuple[float, float]]:
        (path,) = (one for one in self.group(name).iter(f"{SVG}path"))
        numbers = [float(word) for word in path.attrib["d"].replace("z", "").split() if word not in "ML"]
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def values(self, axis: str, panel: int = 1) -> tuple[float, float]:
        """What turns a position into a number: slope and intercept, from the ticks of an axis."""
        places, numbers = [], []
        group = self.group(f"axes_{panel}")
        for tick in group.iter(f"{SVG}g"):
            if tick.get("id", "").startswith(f"{axis}tick_"):
                use = next(tick.iter(USE))
                text = "".join(next(tick.iter(f"{SVG}text")).itertext())
                places.append(float(use.attrib[axis]))
                numbers.append(float(text.replace("\N{MINUS SIGN}", "-")))
        slope, intercept = np.polyfit(places, numbers, 1)
        return float(slope), float(intercept)


def drawn(name: str, contest: ComparisonSet, analysis: Analysis, setting: str | None = None) -> Drawn:
    return Drawn(ET.fromstring(image(draw(name, contest, analysis, setting), f"{name}.svg")))


@pytest.mark.slow
def test_differences_stand_where_the_comparison_says_with_their_intervals_and_verdicts(
    contest: ComparisonSet, analysis: Analysis
) -> None:
    svg = drawn("differences", contest, analysis)
    slope, intercept = svg.values("x")
    best = max(contest.contenders, key=lambda one: one.setting.scores["ndcg@3"].mean or 0.0).name
    parts = [part for part in analysis.comparisons if part.metric == "ndcg@3" and part.baseline == best]
    parts.sort(key=lambda part: -(part.difference or 0.0))
    assert [part.ci is None for part in parts].count(False) == 2
    for place, part in enumerate(parts):
        ((x, _),) = svg.points(f"difference-{place}")
        assert slope * x + intercept == pytest.approx(part.difference, abs=2e-4)
        if part.ci is None:
            assert not svg.has(f"interval-{place}")
            continue
        ends = [slope * corner[0] + intercept for corner in svg.corners(f"interval-{place}")]
        assert ends == pytest.approx(list(part.ci), abs=2e-4)
    texts = svg.texts()
    assert [text for text in texts if text in contest.names] == [part.setting for part in parts]
    verdicts = [str(part.verdict) for part in parts]
    assert [text for text in texts if text in verdicts] == verdicts


def test_curves_stand_where_the_means_are(contest: ComparisonSet, analysis: Analysis) -> None:
    svg = drawn("curves", contest, analysis)
    slope, intercept = svg.values("y")
    ordered = sorted(contest.contenders, key=lambda one: -(one.setting.scores["ndcg@3"].mean or 0.0))
    for place, contender in enumerate(ordered):
        means = [contender.setting.scores[f"ndcg@{k}"].mean for k in (1, 2, 3)]
        found = [slope * y + intercept for _, y in svg.points(f"curve-{place}")]
        assert found == pytest.approx(means, abs=2e-4)
    assert {"1", "2", "3", "k", "ndcg", *contest.names} <= set(svg.texts())


def test_each_query_is_a_point_of_the_scatter_on_its_own_side(contest: ComparisonSet, analysis: Analysis) -> None:
    setting = next(name for name in contest.names if name.startswith("words"))
    svg = drawn("scatter", contest, analysis, setting)
    (sx, ix), (sy, iy) = svg.values("x"), svg.values("y")
    values = contest.scores("ndcg@3").values
    shown = {
        outcome: sorted((sx * x + ix, sy * y + iy) for x, y in svg.points(f"queries-{outcome}"))
        for outcome in ("won", "lost", "tied")
    }
    own = values[contest.place(setting)]
    means = {name: values[contest.place(name)].mean() for name in contest.names if name != setting}
    base = values[contest.place(max(means, key=lambda name: means[name]))]
    for outcome, keeps in (("won", own > base), ("lost", own < base), ("tied", own == base)):
        expected = sorted(zip(base[keeps].tolist(), own[keeps].tolist(), strict=True))
        assert np.array(shown[outcome]).reshape(-1, 2) == pytest.approx(np.array(expected).reshape(-1, 2), abs=2e-3)
        assert f"{int(keeps.sum())} {outcome}" in svg.texts()


def test_bars_count_the_queries_and_none_holds_both_sides(contest: ComparisonSet, analysis: Analysis) -> None:
    setting = next(name for name in contest.names if name.startswith("words"))
    svg = drawn("distribution", contest, analysis, setting)
    (sx, ix), (sy, iy) = svg.values("x"), svg.values("y")
    place = contest.place(setting)
    base = max((one for one in range(4) if one != place), key=lambda one: contest.scores("ndcg@3").values[one].mean())
    found = query_differences(contest, type(contest.pairs()[0])(base, place))
    for outcome, count in (("won", found.won), ("lost", found.lost)):
        sizes = [abs(one.difference) for one in found.queries if one.outcome == outcome]
        step = max(abs(one.difference) for one in found.queries) / 12
        bars = []
        for place in range(12):
            inside = sum(place * step < size <= (place + 1) * step + 1e-12 for size in sizes)
            assert svg.has(f"{outcome}-{place}") == bool(inside)
            if inside:
                bars.append(svg.corners(f"{outcome}-{place}"))
                assert sy * min(y for _, y in bars[-1]) + iy == pytest.approx(inside, abs=0.05)
        assert len(sizes) == count > 1
        sides = [sx * x + ix for bar in bars for x, _ in bar]
        assert all(side > -1e-3 if outcome == "won" else side < 1e-3 for side in sides)
    assert {f"{found.won} won", f"{found.lost} lost", f"{found.tied} tied"} <= set(svg.texts())


def test_each_bar_counts_what_lies_in_its_bin() -> None:
    differences = [-0.6, -0.59, -0.26, -0.02, 0.0, 0.01, 0.04, 0.07, 0.3, 0.33]
    queries = [
        QueryDifference(id=str(place), text="", baseline=0.6, setting=0.6 + one, difference=one,
                        outcome="won" if one > 0 else "lost" if one < 0 else "tied")
        for place, one in enumerate(differences)
    ]  # fmt: skip
    found = QueryDifferences(metric="ndcg@3", baseline="a", setting="b", won=5, tied=1, lost=4, not_counted=0,
                             queries=queries)  # fmt: skip
    with styled():
        figure = distribution(found)
    svg = Drawn(ET.fromstring(image(figure, "x.svg")))
    slope, intercept = svg.values("y")
    names = [f"{outcome}-{place}" for outcome in ("lost", "won") for place in range(12)]
    counts = {name: slope * min(y for _, y in svg.corners(name)) + intercept for name in names if svg.has(name)}
    # Bins are 0.05 wide, as the largest difference is 0.6; the first is nearest to 0.
    expected = {"lost-0": 1, "lost-5": 1, "lost-11": 2, "won-0": 2, "won-1": 1, "won-5": 1, "won-6": 1}
    assert counts == pytest.approx(expected, abs=0.05)


def test_slices_and_effects_stand_under_their_headings(contest: ComparisonSet, analysis: Analysis) -> None:
    slices, effects = SLICES.of(analysis), EFFECTS.of(analysis)
    assert slices is not None
    assert effects is not None
    svg = drawn("slices", contest, analysis)
    slope, intercept = svg.values("x")
    setting = next(part.setting for part in slices.comparisons if part.difference)
    tags = [part for part in slices.comparisons if part.setting == setting and part.slicing == "tag"]
    texts = svg.texts()
    start = texts.index("by tag")
    assert texts[start + 1 : start + 1 + len(tags)] == [f"{part.name} ({part.n})" for part in tags]
    ((x, _),) = svg.points("difference-1")
    assert slope * x + intercept == pytest.approx(tags[0].difference, abs=2e-4)
    svg = drawn("effects", contest, analysis)
    slope, intercept = svg.values("x")
    size = next(part for part in effects.effects if part.levels.parameter == "chunker.size")
    assert {"chunker.size", "40 → 120", "retriever"} <= set(svg.texts())
    ((x, _),) = svg.points("difference-1")
    assert slope * x + intercept == pytest.approx(size.difference, abs=2e-4)


def test_the_tradeoff_has_each_setting_at_its_price(contest: ComparisonSet, analysis: Analysis) -> None:
    costs = COSTS.of(analysis)
    assert costs is not None
    svg = drawn("tradeoff", contest, analysis)
    assert "context" in costs.costs
    panel = costs.costs.index("context") + 1
    (sx, ix), (sy, iy) = svg.values("x", panel), svg.values("y", panel)
    for place, part in enumerate(costs.settings):
        ((x, y),) = svg.points(f"context-{place}")
        assert sx * x + ix == pytest.approx(part.context, abs=0.05)
        assert sy * y + iy == pytest.approx(part.mean, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in plot_names() if name != "search"])  # which this report was not
@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_the_same_report_makes_the_same_bytes_whatever_the_users_own_rules_say(
    name: str, ending: str, contest: ComparisonSet, analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib as mpl

    made = []
    for size in (7.0, 30.0):
        monkeypatch.setitem(mpl.rcParams, "font.size", size)
        made.append(image(draw(name, contest, analysis), f"x{ending}"))
    assert made[0] == made[1]
    assert made[0].startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
    assert b"<dc:date>" not in made[0]


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    labels = {f"q{place}": {"a": 1} for place in range(12)}
    odd = "_<script>$\\frac{x}$\u202e"
    runs = {name: dict.fromkeys(labels, docs) for name, docs in (("odd", "a b"), ("plain", "b a"))}
    report = scored_report(tmp_path / "odd", labels, runs, "--metrics", "ndcg@2,ndcg@1")
    edit_report(report.folder, '"odd"', json.dumps(odd))
    contest = contest_of([str(report.folder)])
    assert odd in contest.names
    analysis = analyse(contest, ComparisonOptions(), costs=True)
    svg = drawn("curves", contest, analysis)
    assert any(text.startswith("_<script>$\\frac{x}$") for text in svg.texts())
    assert not any("\u202e" in text for text in svg.texts())
    assert not list(svg.root.iter(f"{SVG}script"))
    drawn("differences", contest, analysis)


def test_a_file_is_named_after_its_plot_where_nothing_else_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ragtrial(capsys, "report", str(folder), "--plot", "curves", "--json", "-q")
    size = (tmp_path / "curves.svg").stat().st_size
    assert made.json == {"exit_code": 0, "wrote": ["curves.svg"], "bytes": size}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--plot", "curve", "-o", "x.svg"],
            "unknown plot 'curve'. Did you mean 'curves'? "
            "Plots: search, differences, curves, slices, effects, tradeoff, scatter, distribution.",
        ),
        (["--plot", "curves", "-o", "x.pdf"], "x.pdf: a plot is written as .svg or .png; name such a file."),
        (["-o", "x.json"], "x.json: a page is written as .html; with --plot NAME, a plot as .svg or .png."),
        (["--plot", "curves", "-o", "x"], "x: a plot is written as .svg or .png; name such a file."),
        (["--setting", "dense"], "--setting goes with --plot; on the page one chooses."),
        (
            ["--plot", "effects", "--setting", "dense"],
            "--setting is for slices, scatter, distribution; effects shows all settings.",
        ),
        (
            ["--plot", "scatter", "--baseline", "dense-size40", "--setting", "dense-size40"],
            "scatter would show 'dense-size40' against itself; choose another --setting.",
        ),
        (
            ["--plot", "slices", "--setting", "densesize40"],
            "no setting 'densesize40' is compared. Did you mean 'dense-size40'? "
            "There are: dense-size40, words-size40, dense-size120, words-size120.",
        ),
        (
            ["--plot", "slices", "--baseline", "dense-size40", "--setting", "dense-size40"],
            "slices do not compare 'dense-size40'; they compare dense-size40 with words-size40, words-size120, "
            "dense-size120.",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_can_be(
    options: list[str], said: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    made = ragtrial(capsys, "report", str(folder), *options)
    assert (made.code, made.out, made.err) == (2, "", f"error: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_of_two_reports_each_setting_stands_against_its_namesake(tmp_path: Path) -> None:
    labels = {f"q{place}": {"a": 1} for place in range(12)}
    orders = {"old": ("a b", "b a"), "new": ("b a", "b a c")}
    reports = []
    for version, (one, two) in orders.items():
        runs = {"one": dict.fromkeys(labels, one), "two": dict.fromkeys(labels, two)}
        report = scored_report(tmp_path / version, labels, runs, "--metrics", "ndcg@2")
        reports.append(str(report.folder.rename(tmp_path / f"{version}-report")))
    contest = contest_of(reports)
    assert contest.baseline == "old-report"
    svg = drawn("differences", contest, analyse(contest, ComparisonOptions(contest.baseline)))
    assert [text for text in svg.texts() if ":" in text] == ["new-report:two", "new-report:one"]
    assert any("from old-report" in text for text in svg.texts())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("curves", "cannot plot curves: no metric has two cutoffs; add values of k and run again."),
        ("effects", "there is no plot of effects: no two settings agree in all but one parameter of a sweep."),
        ("tradeoff", "cannot plot the tradeoff: no cost (latency, context, index) is known for two settings."),
    ],
)
def test_a_plot_without_data_says_why(name: str, said: str, tmp_path: Path) -> None:
    runs = {"one": {"q": "a b"}, "two": {"q": "b a"}}
    report = scored_report(tmp_path / "report", {"q": {"a": 1}}, runs, "--metrics", "ndcg@2")
    contest = contest_of([load_report(report.folder)])
    analysis = analyse(contest, ComparisonOptions(), slices=True, axes=True, costs=True)
    with pytest.raises(PlotError) as raised:
        draw(name, contest, analysis)
    assert str(raised.value) == said


def test_without_matplotlib_one_is_told_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = ragtrial(capsys, "report", str(folder), "--plot", "curves", "-o", str(tmp_path / "x.svg"))
    said = "error: plots need matplotlib, which is not installed: pip install 'ragtrial[plot]'.\n"
    assert (made.code, made.out, made.err) == (2, "", said)
    assert list(tmp_path.iterdir()) == []


def lightness(colour: str) -> float:
    """L* of CIELAB, 0 to 100."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return float(116 * np.cbrt(light) - 16) if light > 0.008856 else 903.3 * light


def test_colours_of_sides_differ_in_grey() -> None:
    shades = sorted(map(lightness, (BETTER, WORSE, NEUTRAL)))
    assert min(np.diff(shades)) > 8
    assert len(set(_COLOURS)) == len(_COLOURS)

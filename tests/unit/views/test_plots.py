"""Plots for papers: every number stands where the report says, the same bytes each time, and exact refusals."""

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
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.errors import PlotError
from ragtrial.views.analysis import Analysis, analyse, draw, image
from ragtrial.views.sections import plot_names
from scored_runs import scored_report
from small_experiment import Capture, ragtrial

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
def contest(folder: Path) -> ComparisonInput:
    return input_of([str(folder)])


@pytest.fixture(scope="module")
def analysis(contest: ComparisonInput) -> Analysis:
    return analyse(contest, ComparisonOptions())


@dataclass
class Drawn:
    """An SVG that is read again."""

    root: ET.Element

    def texts(self) -> list[str]:
        return ["".join(text.itertext()) for text in self.root.iter(f"{SVG}text")]

    def heights(self, words: str) -> list[float]:
        return [float(text.attrib["y"]) for text in self.root.iter(f"{SVG}text") if "".join(text.itertext()) == words]

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


def drawn(name: str, contest: ComparisonInput, analysis: Analysis) -> Drawn:
    return Drawn(ET.fromstring(image(draw(name, contest, analysis), f"{name}.svg")))


@pytest.mark.slow
def test_differences_are_drawn_with_intervals_and_verdicts(contest: ComparisonInput, analysis: Analysis) -> None:
    svg = drawn("differences", contest, analysis)
    slope, intercept = svg.values("x")
    best = max(contest.settings, key=lambda one: one.part.scores["ndcg@3"].mean or 0.0).name
    parts = [part for part in analysis.comparisons if part.metric == "ndcg@3" and part.baseline == best]
    parts.sort(key=lambda part: -(part.difference or 0.0))
    assert [part.ci is None for part in parts].count(False) == 2
    for place, part in enumerate(parts):
        ((x, y),) = svg.points(f"difference-{place}")
        assert any(abs(height - y) < 4 for height in svg.heights(str(part.verdict))), "the verdict is in its row"
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


def test_curves_stand_where_the_means_are(contest: ComparisonInput, analysis: Analysis) -> None:
    svg = drawn("curves", contest, analysis)
    slope, intercept = svg.values("y")
    ordered = sorted(contest.settings, key=lambda one: -(one.part.scores["ndcg@3"].mean or 0.0))
    for place, contender in enumerate(ordered):
        means = [contender.part.scores[f"ndcg@{k}"].mean for k in (1, 2, 3)]
        found = [slope * y + intercept for _, y in svg.points(f"curve-{place}")]
        assert found == pytest.approx(means, abs=2e-4)
    assert {"1", "2", "3", "k", "ndcg", *contest.names} <= set(svg.texts())


@pytest.mark.slow
@pytest.mark.parametrize("name", plot_names())
@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_the_same_report_makes_the_same_bytes_whatever_the_users_own_rules_say(
    name: str, ending: str, contest: ComparisonInput, analysis: Analysis, monkeypatch: pytest.MonkeyPatch
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
    contest = input_of([str(report.folder)])
    assert odd in contest.names
    analysis = analyse(contest, ComparisonOptions())
    svg = drawn("curves", contest, analysis)
    assert any(text.startswith("_<script>$\\frac{x}$") for text in svg.texts())
    assert not any("\u202e" in text for text in svg.texts())
    assert not list(svg.root.iter(f"{SVG}script"))
    drawn("differences", contest, analysis)


def test_a_plot_names_its_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    made = ragtrial(capsys, "report", str(folder), "--plot", "curves", "--json", "-q")
    size = (tmp_path / "curves.svg").stat().st_size
    assert made.json == {"exit_code": 0, "wrote": ["curves.svg"], "bytes": size}


def test_a_plot_without_data_says_why(tmp_path: Path) -> None:
    runs = {"one": {"q": "a b"}, "two": {"q": "b a"}}
    report = scored_report(tmp_path / "report", {"q": {"a": 1}}, runs, "--metrics", "ndcg@2")
    contest = input_of([load_report(report.folder)])
    with pytest.raises(PlotError, match=r"^cannot plot curves: no metric has two cutoffs; add values of k and run"):
        draw("curves", contest, analyse(contest, ComparisonOptions()))


def test_matplotlib_is_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = ragtrial(capsys, "report", str(folder), "--plot", "curves", "-o", str(tmp_path / "x.svg"))
    said = "error: plots need matplotlib, which is not installed: pip install 'ragtrial[plot]'.\n"
    assert (made.code, made.out, made.err) == (2, "", said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "said"), [
    (["--plot", "curve", "-o", "x.svg"], "unknown plot 'curve'. Did you mean 'curves'? Plots: differences, curves."),
    (["--plot", "curves", "-o", "x.pdf"], "x.pdf: a plot is written as .svg or .png; name such a file."),
    (["-o", "x.json"], "x.json: a page is written as .html; with --plot NAME, a plot as .svg or .png."),
    (["--plot", "curves", "-o", "x"], "x: a plot is written as .svg or .png; name such a file."),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused_with_what_can_be(
    options: list[str], said: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    made = ragtrial(capsys, "report", str(folder), *options)
    assert (made.code, made.out, made.err) == (2, "", f"error: {said}\n")
    assert list(tmp_path.iterdir()) == []

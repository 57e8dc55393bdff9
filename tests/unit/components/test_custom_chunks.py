"""A function of the user's cuts: what it returns is placed exactly, or refused with the piece and the document."""

from pathlib import Path

import pytest

from expectations import message_of
from experiments import DOCUMENTS, Experiment, write_experiment
from ragtrial.components.chunkers.base import Ruler, trimmed
from ragtrial.components.chunkers.custom import CustomChunker
from ragtrial.components.user_functions import FunctionReference
from ragtrial.errors import ChunkerError, LabelsError, RunError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.chunk_preview import cut_settings
from ragtrial.pipeline.run import RunOptions


def made(tmp_path: Path, body: str, name: str = "cutter") -> CustomChunker:
    (tmp_path / f"{name}.py").write_text(f"def cut(text):\n    {body}\n")
    return CustomChunker(function=FunctionReference(f"{name}:cut", tmp_path))


def chunks(tmp_path: Path, body: str, text: str = "One two. Three four.\n\nOne two. Five.") -> list[str]:
    return [text[span.start : span.end] for span in made(tmp_path, body).split(text, Ruler(range(len(text))))]


@pytest.mark.parametrize(("body", "expected"), [
    ("return [(0, 8), (9, 20)]", ["One two.", "Three four."]),
    ("yield (0, 9); yield (9, 22); yield (20, 22)", ["One two.", "Three four."]),
    ("return ['One two.', 'Three four.', 'One two. Five.']", ["One two.", "Three four.", "One two. Five."]),
    ("return ['  One two.  ', ' ', '', 'Five.']", ["One two.", "Five."]),
    ("import numpy as np; return np.array([[0, 8]])", ["One two."]),
    ("return []", []),
])  # fmt: skip
def test_pairs_and_verbatim_pieces_are_placed_in_the_text(tmp_path: Path, body: str, expected: list[str]) -> None:
    assert chunks(tmp_path, body) == expected


def test_a_repeated_piece_is_the_place_right_after_the_piece_before_it(tmp_path: Path) -> None:
    text = "x x x x\nx x"
    spans = made(tmp_path, "return ['x x', 'x x', 'x x']").split(text, Ruler(range(len(text))))
    assert [(span.start, span.end) for span in spans] == [(0, 3), (4, 7), (8, 11)]


SHAPE = "it must return a list of (start, end) pairs inside the text, or of verbatim pieces of it in their order."
ORDER = "each must begin and end later than the one before."


@pytest.mark.parametrize(("body", "fault"), [
    ("return None", f"cutter:cut returned NoneType; {SHAPE}"),
    ("return [(0, 8), 'One two.']", f"piece 2 that cutter:cut returned is 'One two.'; {SHAPE}"),
    ("return [(0, 8.5)]", f"piece 1 that cutter:cut returned is (0, 8.5); {SHAPE}"),
    ("return [(9, 20), (0, 8)]", f"piece 2 that cutter:cut returned is (0, 8); {ORDER}"),
    ("return ['One two.', 'one three']", f"piece 2 that cutter:cut returned is 'one three'; {SHAPE}"),
    ("raise SystemExit(3)", "cutter:cut raised SystemExit: 3"),
    ("yield (0, 8); raise KeyError('x')", "cutter:cut raised KeyError: 'x'"),
])  # fmt: skip
def test_what_are_no_chunks_is_refused_with_the_piece(tmp_path: Path, body: str, fault: str) -> None:
    assert message_of(ChunkerError, chunks, tmp_path, body) == fault


PERIODIC = ("The same line again. " * 40 + "\n") * 10


@pytest.mark.parametrize(
    ("text", "size", "step"),
    [(PERIODIC, 800, 400), (PERIODIC, 1600, 1400), ("ab" * 3000, 500, 250), ("Nothing to see here.\n" * 300, 333, 111)],
)
def test_overlapping_pieces_are_placed_where_they_were_cut(tmp_path: Path, text: str, size: int, step: int) -> None:
    """Each piece is in many places; only one leaves as much to every piece as there is."""
    cut = [(start, min(start + size, len(text))) for start in range(0, len(text) - size + step, step)]
    wanted = [span for span in (trimmed(text, *one) for one in cut) if span]
    pieces = [text[span.start : span.end] for span in wanted]
    spans = made(tmp_path, f"return {pieces!r}").split(text, Ruler(range(len(text))))
    assert spans == wanted


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    made_here = write_experiment(tmp_path / "custom", chunker={"kind": "custom", "function": "cutter:cut"})
    (made_here.folder / "cutter.py").write_text("def cut(text):\n    return text.split('\\n\\n')\n")
    return made_here


def test_the_document_is_named_where_the_function_fails(experiment: Experiment) -> None:
    (experiment.folder / "cutter.py").write_text("def cut(text):\n    return [(0, 10_000)]\n")
    assert message_of(RunError, run_experiment, experiment.config()) == (
        f"setting 'dense': document 'bread/rolls.md': piece 1 that cutter:cut returned is (0, 10000); {SHAPE}"
    )


def test_text_that_a_function_leaves_out_is_counted_and_warned_of(experiment: Experiment) -> None:
    """By run, by chunks and by validate; an error under strict. White space between pieces is not counted."""
    (experiment.folder / "cutter.py").write_text(
        "def cut(text):\n    return [] if 'Rye' in text else text.split('\\n\\n')[:1] if 'rolls' in text else [text]\n"
    )
    report = run_experiment(experiment.config())
    texts = [path.read_text(encoding="utf-8") for path in sorted((experiment.folder / "documents").rglob("*.*"))]
    characters = sum(len("".join(text.split())) for text in texts)
    lost = "".join(DOCUMENTS["bread/rye.md"].split()) + "".join(DOCUMENTS["bread/rolls.md"].split("\n\n")[1].split())
    expected = (
        f"dense: {len(lost)} of {characters} characters ({len(lost) / characters:.1%}, without white space) are in no "
        "chunk and cannot be found; they are in 2 documents, 'bread/rolls.md' first."
    )
    assert [one.message for one in report.warnings if one.code == "uncovered-text"] == [expected]
    (made_here,) = cut_settings(experiment.config())
    assert [one.message for one in made_here.warnings if one.code == "uncovered-text"] == [expected]
    assert expected in message_of(LabelsError, run_experiment, experiment.config(), RunOptions(strict=True))

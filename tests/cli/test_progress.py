"""Progress in a file or a pipe: a line for each finished stage, for a long one how far it is, and scores at once."""

import re
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from ragtrial import compare, load_config, run_experiment
from ragtrial.cli.terminal import LineProgress, Terminal
from ragtrial.progress import stage
from ragtrial.views.comparison_tables import comparison_text
from small_experiment import CONFIG, Capture, ragtrial, small_experiment


def test_a_long_stage_says_how_far_it_is_and_how_long_it_takes(capsys: Capture) -> None:
    """The first step is what the cache has, and the second loads the model: neither counts for the speed."""
    progress, seen, pause = LineProgress(first=0.001, every=0.001), "", threading.Event()
    progress.begin("embeddings", 5_738, "chunks")
    for advances, awaited in (((), "0 of 5,738 chunks, running"), ((700, 1), "701 of 5,738 chunks, running"),
                              ((499,), "left")):  # fmt: skip
        for count in advances:
            progress.advance(count)
        while awaited not in seen and not pause.wait(0.001):
            seen += capsys.readouterr().err
    progress.finish()
    lines = (seen + capsys.readouterr().err).splitlines()
    assert "embeddings: 1,200 of 5,738 chunks, about <1 s left" in lines
    assert re.fullmatch(r"embeddings: 5,738 chunks, [0-9.]+ s", lines[-1])


def test_notebooks_show_progress_by_default(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    for notebook in (False, True):
        if notebook:
            monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
        for progress in (None, True, False):
            folder = tmp_path / f"{notebook}-{progress}"
            config = load_config(small_experiment(folder), [f"workspace={folder}/cache"])
            run_experiment(config, progress=progress)
            shown.append("documents: " in capsys.readouterr().err)
    assert shown == [False, True, False, True, True, False]


def test_a_printed_comparison_is_the_screen(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency"))
    report = run_experiment("experiment.yaml")
    monkeypatch.setenv("COLUMNS", "100")
    screen = ragtrial(capsys, "compare", report.folder).out
    text = str(compare(report))
    assert text.startswith("2 settings, 2 questions, ndcg@3, all pairs\n\nNo ranking yet")
    assert text.split("\n\n")[:3] == screen.split("\n\n")[:3]
    assert "(to_frame() has all).\n" in comparison_text(compare(report), 50)
    assert max(map(len, text.splitlines())) <= 100


def test_each_setting_is_scored_at_once(tmp_path: Path, capsys: Capture) -> None:
    """So a first verdict is there before the embeddings are; a cached run says nothing of it."""
    first = CONFIG.replace("retrievers:\n", "retrievers:\n  words: {kind: bm25, top_k: 3}\n")
    small_experiment(tmp_path, config=first)
    lines = ragtrial(capsys, "run").err.splitlines()
    scores = [line for line in lines if "ndcg@3" in line]
    assert scores == ["words: ndcg@3 1.0000 (1 of 2 settings)", "dense: ndcg@3 1.0000 (2 of 2 settings)"]
    embedded = next(place for place, line in enumerate(lines) if line.startswith("embeddings: "))
    assert lines.index(scores[0]) < embedded
    assert "of 2 settings" not in ragtrial(capsys, "run").err


def test_chunks_longer_than_the_model_reads_are_reported_before_embedding(tmp_path: Path, capsys: Capture) -> None:
    config = CONFIG.replace('{kind: custom, function: "hashing:embed"}', "{kind: sentence-transformer, max_length: 8}")
    small_experiment(tmp_path, config=config)
    lines = ragtrial(capsys, "run").err.splitlines()
    said = [place for place, line in enumerate(lines) if "longer than the 8 tokens that the model reads" in line]
    embedded = next(place for place, line in enumerate(lines) if line.startswith("embeddings: "))
    assert said[0] < embedded < said[1]  # and among the warnings at the end
    assert lines[said[0]].startswith("dense: chunks longer than the 8 tokens that the model reads: 3;")


def test_a_stage_within_another_is_told_first_and_the_outer_one_by_its_own_name(capsys: Capture) -> None:
    progress = Terminal(as_json=False, quiet=False, verbose=False, no_color=True).progress()
    with stage(progress, "retrieval (reranked)", 4, "queries") as outer:
        with stage(progress, "reranking", 400, "pairs") as inner:
            inner.advance(400)
        with pytest.raises(ValueError, match="broken"), stage(progress, "abandoned", 1, "pairs"):
            raise ValueError("broken")
        outer.advance(4)
    lines = [re.sub(r"[0-9.]+ s$", "s", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == ["reranking: 400 pairs, s", "retrieval (reranked): 4 queries, s"]

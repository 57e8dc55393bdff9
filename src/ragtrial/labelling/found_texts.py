"""The texts that people and judges grade: the passages that settings found, or whole documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.judged_rankings import HitKey, hits_of_row
from ragtrial.config import load_config
from ragtrial.dataset.datasets import load_dataset
from ragtrial.errors import CorpusError, Fault, InputError, LabelsError, ReportError, listed
from ragtrial.labelling.worklist import TextToGrade
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.scoring.rescore import is_of_given_runs

GAP = "\n\n[...]\n\n"
"""The mark between passages of a document that do not meet."""

Wanted = tuple[str, HitKey]
"""The id of a query, and a hit of it."""


Row = Mapping[str, Any]
"""The text of a chunk, as reports have it: ``doc``, ``title``, ``start``, ``end``, ``text``."""


class Stretch(NamedTuple):
    """A text, the characters ``start`` to ``end`` of a document."""

    start: int
    end: int
    text: str


def texts_to_grade(
    inputs: ComparisonInput,
    hits: Sequence[tuple[int, HitKey]],
    config_file: Path | None,
    progress: Progress,
    *,
    quotes: bool = False,
) -> list[TextToGrade]:
    """The text of each hit of the query at a row: all passages that settings found of a document, or one passage.

    With ``quotes`` the longest passage of a document is shown. Raises InputError if texts are missing, LabelsError for
    missing questions.
    """
    wanted = [(inputs.queries[row].id, found) for row, found in hits]
    if not any(is_of_given_runs(setting.report) for setting in inputs.settings):
        texts = _kept(inputs, wanted)
    else:
        texts = _whole_documents(inputs, wanted, config_file, progress)
    questions = _questions_of(inputs, list(dict.fromkeys(row for row, _ in hits)), config_file)
    items = []
    for (row, found), (query, _) in zip(hits, wanted, strict=True):
        stretches = _joined(texts[query, found])
        shown: tuple[int | None, int | None, str] = None, None, GAP.join(stretch.text for stretch in stretches)
        if quotes or not isinstance(found, str):
            shown = max(stretches, key=lambda stretch: stretch.end - stretch.start)
        (start, end, text), first = shown, texts[query, found][0]
        items.append(TextToGrade(query=query, question=questions[row], doc=first["doc"], title=first["title"],
                                 start=start, end=end, text=text))  # fmt: skip
    return items


def _whole_documents(
    inputs: ComparisonInput, wanted: Sequence[Wanted], config_file: Path | None, progress: Progress
) -> dict[Wanted, list[Row]]:
    """The documents of ``config_file`` that given rankings name."""
    report = inputs.report
    if config_file is None:
        raise InputError(
            f"run {report.run_id} was scored from rankings alone, without texts to label. Name a config with the "
            "documents: --config CONFIG."
        )
    library = Corpus(load_config(config_file), progress).library
    missing = sorted({str(found) for _, found in wanted} - library.positions.keys())
    if missing:
        message = f"lacks documents of run {report.run_id} ({listed(missing, 5)}); is it the right config?"
        raise CorpusError(Fault(str(config_file), message=message))
    texts: dict[Wanted, list[Row]] = {}
    for query, found in wanted:
        document = library[library.positions[str(found)]]
        row = {"doc": document.id, "title": document.title, "start": 0, "end": len(document.text)}
        texts[query, found] = [{**row, "text": document.text}]
    return texts


def _questions_of(inputs: ComparisonInput, rows: Sequence[int], config_file: Path | None) -> dict[int, str]:
    """The text of the queries at ``rows``, in the report or else in the labels of ``config_file``."""
    questions = {row: inputs.queries[row].text for row in rows}
    if config_file is not None and not all(questions.values()):
        options = load_config(config_file).dataset
        if options.beir is not None:  # its overlay need not exist
            options = options.model_copy(update={"overlay": None})
        texts = {query.id: query.text for query in load_dataset(options).labels.queries}
        questions = {row: text or texts.get(inputs.queries[row].id, "") for row, text in questions.items()}
    lacking = [inputs.queries[row].id for row, text in questions.items() if not text.strip()]
    if lacking:
        raise LabelsError(
            f"the report does not have the texts of its queries, nor does the config: {listed(lacking, 5)}. Name a "
            "config with them: --config CONFIG."
        )
    return questions


def _kept(inputs: ComparisonInput, wanted: Sequence[Wanted]) -> dict[Wanted, list[Row]]:
    """The passages in the texts of the reports. Raises ReportError if these are damaged."""
    chunks: dict[Wanted, dict[str, Path]] = {key: {} for key in wanted}
    queries = list(dict.fromkeys(query for query, _ in wanted))
    for contender in inputs.settings:
        folder = contender.report.folder
        rows = contender.report.rankings(contender.part.name, queries)
        for query, row in zip(queries, rows, strict=True):
            for chunk, unit in zip(row["chunks"], hits_of_row(row, contender.report.unit), strict=True):
                if (query, unit) in chunks:
                    chunks[query, unit].setdefault(chunk, folder)
    texts: dict[str, dict[str, Any]] = {}
    for folder, report in {setting.report.folder: setting.report for setting in inputs.settings}.items():
        names = {name for folders in chunks.values() for name, where in folders.items() if where == folder}
        texts.update(report.texts(names))
    lacking = {name for names in chunks.values() for name in names} - texts.keys()
    if lacking or not all(chunks.values()):
        place = inputs.report.folder / "texts.jsonl.gz"
        raise ReportError(Fault(str(place), message="is damaged: it lacks what rankings/ name; run it again."))
    return {key: [texts[name] for name in names] for key, names in chunks.items()}


def _joined(rows: Sequence[Row]) -> list[Stretch]:
    """The texts of some chunks of a document, joined if they meet or overlap."""
    joined: list[Stretch] = []
    for start, end, text in sorted(Stretch(row["start"], row["end"], row["text"]) for row in rows):
        last = joined[-1] if joined else None
        if last is None or start > last.end:
            joined.append(Stretch(start, end, text))
        elif end > last.end:
            joined[-1] = Stretch(last.start, end, last.text + text[last.end - start :])
    return joined

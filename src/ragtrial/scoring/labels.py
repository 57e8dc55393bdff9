"""The labels by which the rankings of a report are scored again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtrial.config import load_config
from ragtrial.dataset.datasets import load_dataset
from ragtrial.errors import Fault, LabelsError, counted, did_you_mean, listed
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import QueryPart
from ragtrial.runs.inputs import read_qrels
from ragtrial.runs.qrels import Qrels


@dataclass(frozen=True)
class ChosenLabels:
    """The labels by which rankings are scored, for queries with a ranking, in the order of the labels.

    ``file`` is their source. With ``are_places`` their documents are ids and their passages are located.
    """

    labels: PromptQueries
    file: str
    are_places: bool
    are_qrels: bool
    warnings: tuple[ReportWarning, ...]

    def need_texts(self, *, by_content: bool) -> bool:
        """True if the texts of the documents are needed to locate them."""
        if self.are_places:
            return False
        return (by_content and not self.are_qrels) or any(
            judgment.quote is not None or judgment.spans or judgment.text_hash is not None
            for query in self.labels.queries
            for judgment in query.relevant_docs
        )


def labels_of_report(report: Report) -> PromptQueries:
    """The labels of a report, with documents and positions as they were looked up."""
    return PromptQueries(tuple(map(_query, report.queries)), report.prompt)


def choose_labels(report: Report, file: str | Path | None) -> ChosenLabels:
    """The labels in ``file``, or in ``report`` itself, for the queries that the report ranks.

    ``file`` is a prompt_queries.json, qrels in any known form, a config that names its labels, or another report.
    Queries that only one of the two has, or whose text has changed, are left out, with a warning. Raises LabelsError
    for labels that cannot be read, for those of other documents, and if no query is left.
    """
    own = labels_of_report(report)
    if file is None:
        return ChosenLabels(own, str(report.folder / "report.json"), are_places=True, are_qrels=False, warnings=())
    known = {query.id: query for query in own.queries}
    other = load_report(file) if Path(file).is_dir() or not (Path(file).suffix or Path(file).exists()) else None
    if other and report.unit == "span" and other.dataset.documents_fingerprint != report.dataset.documents_fingerprint:
        message = f"its passages are places in other documents than those of run {report.run_id}; name its labels."
        raise LabelsError(Fault(str(file), message=message))
    given, are_qrels, notes = (labels_of_report(other), False, ()) if other else _given(file, known)
    same = {query.id for query in given.queries if query.id in known and known[query.id].text in ("", query.text)}
    if not same:
        names = [query.id for query in given.queries]
        message = (
            f"has {counted(len(names), 'query', 'queries')}, and run {report.run_id} has rankings of none of them. It "
            f"has {listed(names, 3)}; the report has {listed(known, 3)}.{did_you_mean(names[0], known)}"
        )
        raise LabelsError(Fault(str(file), message=message))
    kept = tuple(query for query in given.queries if query.id in same)
    labels = PromptQueries(kept, own.prompt if are_qrels else given.prompt)
    warnings = (*notes, *_left_out(report.run_id, given.queries, known, same))
    return ChosenLabels(labels, str(file), are_places=other is not None, are_qrels=are_qrels, warnings=warnings)


def _given(file: str | Path, known: dict[str, Query]) -> tuple[PromptQueries, bool, tuple[ReportWarning, ...]]:
    """The labels of ``file``, whether they are qrels, by document id, and warnings."""
    if Path(file).suffix in (".yaml", ".yml"):
        dataset = load_config(file).dataset
        loaded = load_dataset(dataset)
        return loaded.labels, dataset.beir is not None, loaded.notes
    qrels = read_qrels(file)
    return qrels.labels or labels_of_qrels(qrels, known), qrels.labels is None, ()


def _left_out(
    run_id: str, queries: Sequence[Query], known: dict[str, Query], same: Collection[str]
) -> Iterator[ReportWarning]:
    names = {query.id: query.id in known for query in queries}
    for code, left, why in (
        ("not-ranked", [name for name, is_known in names.items() if not is_known],
         f"have labels, but no ranking in run {run_id}; run the experiment again"),
        ("text-of-query", [name for name, is_known in names.items() if is_known and name not in same],
         f"have another text than in run {run_id}, so their rankings are of something else; run the experiment again"),
        ("no-labels-left", sorted(known.keys() - names.keys()),
         "are in the report and no more in the labels"),
    ):  # fmt: skip
        if left:
            message = f"queries left out: {len(left):,} ({listed(left, 5)}); they {why}."
            yield ReportWarning(code, message, may_change_verdict=code == "not-ranked")


def _query(part: QueryPart) -> Query:
    judgments = tuple(
        Judgment(one.doc, one.relevance, None, tuple(Span(span.start, span.end) for span in one.spans), group=one.group)
        for one in part.relevant_docs
    )
    return Query(part.id, part.text, judgments, tuple(part.tags), part.ordered, cluster=part.cluster)


def labels_of_qrels(qrels: Qrels, known: Mapping[str, Query]) -> PromptQueries:
    """Qrels as labels, with the texts of ``known`` queries."""
    documents, rows = list(qrels.documents), qrels.judgments.rows.tolist()
    judged: list[list[Judgment]] = [[] for _ in qrels.queries]
    for judgment, grade, group in qrels.judgments.labels():
        judged[rows[judgment]].append(Judgment(documents[judgment], grade, group=group))
    queries = []
    for name, own, ordered in zip(qrels.queries, judged, qrels.judgments.ordered.tolist(), strict=True):
        query = known.get(name, Query(name, ""))
        queries.append(Query(name, query.text, tuple(own), query.tags, ordered, cluster=query.cluster))
    return PromptQueries(tuple(queries))

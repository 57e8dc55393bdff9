"""Drafted questions as a file to review, and the labels that they may go into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtrial.config import ExperimentConfig
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling.answers import labels_form
from ragtrial.labelling.drafting.drafting import Answered, drafted
from ragtrial.labelling.drafting.passages import PassageSearch
from ragtrial.labelling.session.answers import answers_file
from ragtrial.labelling.worklist import DraftCounts, DraftSource, Worklist, check_new, write_worklist
from ragtrial.labelling.write_back import read_labels_text
from ragtrial.records import PromptQueries

_USUAL_METRIC = "ndcg@10"


class DraftFile:
    """A ``file`` of drafts for the labels of ``config``, which need not be there yet.

    Raises InputError if the file cannot be written, or if somebody has begun to review what is in it; LabelsError for
    labels that cannot be read, and for a BEIR folder.
    """

    def __init__(self, file: Path, config: ExperimentConfig) -> None:
        check_new(file, force=True)
        journal = answers_file(file)
        if file.exists() and journal.exists():
            message = (
                f"is under review: {journal.name} has answers. Write other drafts to another file (--seed 1 -o FILE)."
            )
            raise InputError(Fault(str(file), message=message))
        if config.dataset.beir is not None:
            message = "a BEIR folder is not changed. Name a labels file of your own for the questions: dataset.queries."
            raise LabelsError(Fault(config.file or "dataset", message=message))
        labels = read_labels_text(config.dataset.queries or "")
        self._file, self._config, self._labels_file = file, config, labels.file
        self._labels = labels.labels or PromptQueries(())

    def write(
        self, answered: Sequence[Answered], search: PassageSearch, model: str, prompt: str, seed: int
    ) -> DraftCounts:
        """Write what the replies come to, if that is any draft; the counts. Raises RunError."""
        config, labels = self._config, self._labels
        items, counts = drafted(answered, search, labels)
        if items:
            grades = [label.relevance for query in labels.queries for label in query.relevant_docs]
            made = Worklist(
                ragtrial_worklist=1, labels=str(self._labels_file), kind="prompt_queries", form=labels_form(config),
                config=None if config.file is None else str(Path(config.file).absolute()), drawn="drafted",
                source=DraftSource(model=model, prompt=prompt, counts=counts), seed=seed, items=items,
                metric=config.evaluators.primary_metric or _USUAL_METRIC, highest_grade=max([1, *grades]),
            )  # fmt: skip
            write_worklist(made, self._file, force=True)
        return counts

"""A worklist at work: the current item, the answers, their way into the labels, and the lines at the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from ragtrial.comparison.statistics.estimates import confusion, weighted_kappa
from ragtrial.config import ExperimentConfig, load_config
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.locating import is_in
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import Fault, InputError, LabelsError, counted
from ragtrial.labelling import label_files
from ragtrial.labelling.answers import ItemAnswer, SessionAnswers, answers_file
from ragtrial.labelling.edits import MOST_KEY, NO_TEXT, group_like, judged, regraded
from ragtrial.labelling.label_files import Change, Done, Grade
from ragtrial.labelling.label_target import OutsideError, below, config_below, label_command
from ragtrial.labelling.pooling import GAP
from ragtrial.labelling.worklist import TextToGrade, read_worklist, speaks_of
from ragtrial.options import from_here
from ragtrial.progress import Progress, Silent
from ragtrial.records import CHOSEN_BY_STAKES, DRAFTED, DRAWN_AT_RANDOM, NOT_REVIEWED, UNANSWERABLE, Judgment, Span

T = TypeVar("T")

Passage = tuple[str | None, int | None]
"""Words that answer, and their first character in the text of their item, as far as they are known."""


class Session:
    """The answers to the worklist in ``file``; each is kept when it is given, and the same command goes on.

    ``highest`` is the highest grade, by default the highest in the labels, and at most 9. Raises InputError for an
    invalid worklist, invalid labels or labels of other queries, and if the worklist is open elsewhere.
    """

    def __init__(
        self,
        file: str | Path,
        *,
        labels: Path | None = None,
        config: Path | None = None,
        who: str | None = None,
        highest: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.worklist = read_worklist(file)
        self.who = who or label_files.current_user()
        self.highest = highest or max(1, min(MOST_KEY, self.worklist.highest_grade))
        folder, named = Path(file).absolute().parent, self.worklist.config
        self.config_file = config or (Path(named) if named else None)
        try:
            if config is not None:
                self.config: ExperimentConfig | None = load_config(config)
            else:
                self.config = None if self.config_file is None else config_below(self.config_file, folder, file)
            store = labels or below(self.worklist.labels, folder, file, "--labels FILE")
        except OutsideError as error:
            command = label_command(self.worklist, Path(file), labels=labels, config=config)
            fault = Fault(str(file), message=f"If these files are yours: {command}")
            raise OutsideError(*error.faults, fault) from error
        kept = below(answers_file(Path(file)), folder, file, "another worklist")
        self.answers = SessionAnswers(kept, self.worklist.fingerprint, len(self.worklist.items))
        try:
            self._labels = self._with_kept(lambda: self._store(store, progress or Silent()))
            self._others, self._earlier = self._with_kept(self._judged_by_others)
        except BaseException:
            self.answers.close()
            raise

    def _store(self, labels: Path, progress: Progress) -> label_files.LabelStore:
        """The labels of the worklist. Raises LabelsError for labels that are invalid, or of other queries."""
        is_overlay = self.worklist.kind == "overlay"
        if is_overlay and (self.config is None or self.config.dataset.beir is None):
            message = "is laid upon the qrels of a BEIR folder; name the config that has both: --config CONFIG."
            raise LabelsError(Fault(str(labels), message=message))
        text = (label_files.OverlayText if is_overlay else label_files.LabelsText).read(labels)
        if text.text is None and not is_overlay and not self.worklist.is_drafted:
            raise LabelsError(Fault(str(text.file), message="there is no such file; name the labels: --labels FILE."))
        store = label_files.LabelStore(text, self.config, progress)
        self._refuse_other_queries(store)
        return store

    def _refuse_other_queries(self, store: label_files.LabelStore) -> None:
        items = () if self.worklist.is_drafted else self.worklist.items  # drafts are new queries
        texts = {query.id: normalised(query.text).strip() for query in store.labels.queries}
        faults, file = [], str(store.text.file)
        for name, text in {item.query: normalised(item.question).strip() for item in items}.items():
            if name not in texts:
                message = f"there is no query {name!r}, {short(text)!r}, of which the worklist asks."
                faults.append(Fault(file, message=message))
            elif texts[name] != text:
                message = f"query {name!r} is {short(texts[name])!r}; in the worklist it is {short(text)!r}."
                faults.append(Fault(file, message=message))
        if faults:
            end = "The worklist is of other labels: name its own (--labels FILE), or make one of these: ragtrial pool."
            raise LabelsError(*truncated(faults, file), Fault(file, message=end))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the worklist for others; every answer is kept."""
        self.answers.close()

    @property
    def file(self) -> Path:
        """The file of the labels."""
        return self._labels.text.file

    @property
    def item(self) -> TextToGrade | None:
        """The current item; None if all are answered or skipped."""
        current = self.answers.current
        return None if current is None else self.worklist.items[current]

    @property
    def can_quote(self) -> bool:
        """True if the labels can name the passage that answers."""
        return self.worklist.kind == "prompt_queries"

    @property
    def question(self) -> str:
        """The question of the current item, with its change; empty without an item."""
        return self.answers.pending.question or (self.item.question if self.item else "")

    @property
    def passage(self) -> Passage:
        """The passage of the current item that answers: the named passage, or the quote of the draft."""
        return (None, None) if self.item is None else _passage(self.item, self.answers.pending)

    @property
    def groups(self) -> dict[str, list[str]]:
        """The known answers of the current question, by group: their documents, and passages if they are known.

        They are relevant labels, and answers of this session; one without a group gets a new group if it is chosen.
        Labels that judge the current text are left out: nothing says whether it is judged already.
        """
        item, groups = self.item, dict[str, list[str]]()
        query = next((query for query in self._labels.labels.queries if item and query.id == item.query), None)
        if item is None or query is None or query.ordered or not self.can_quote:
            return groups
        names = {label.group for label in query.relevant_docs}  # passages in several documents get groups without one
        known = [replace(label, group=label.group if label.group in names else None)
                 for label in self._others.get(query.id, ()) if not self._speaks_of(label, item)]  # fmt: skip
        own = self._own
        known += [label for label in query.relevant_docs if (query.id, replace(label, group=None)) in own]
        fresh = [number for number in self.answers.unsaved if self.answers.given[number].earlier is None]
        known += [_as_judgment(grade) for grade in self._grades(fresh) if grade.query == query.id]
        for label in known:
            if label.relevance > 0:
                place = label.doc if label.quote is None else f"{label.doc}: {label.quote}"
                groups.setdefault(label.group or self._name(label), []).append(place)
        return groups

    def _name(self, label: Judgment) -> str:
        """The name for the group of a label that has none."""
        more = f": {label.quote}" if label.quote is not None else "".join(f" {at.start}-{at.end}" for at in label.spans)
        place = (label.quote or label.doc) if self.worklist.form == "content" else label.doc + more
        return group_like(place)

    @property
    def overtaken(self) -> set[int]:
        """The items that another person judged between the answer and its save; that judgment stays."""
        given = self.answers.given
        return {item for item in self.answers.saved - self.answers.written if given[item].earlier is None}

    def grade(self, grade: int, *, reviewed: bool = True) -> None:
        """Give the current item a grade. Raises InputError if it has no such grade."""
        item = self._current()
        if not 0 <= grade <= self.highest:
            raise InputError(f"the grade {grade} is not among 0 to {self.highest}; --highest {grade} would allow it.")
        if self.worklist.form != "document" and not self.worklist.items[item].text.strip():
            raise InputError(NO_TEXT)
        group = self.answers.pending.group if grade else None
        self._answer(grade=grade, group=group, who=self.who, earlier=self._earlier.get(item), reviewed=reviewed)

    def _answer(self, **changed: object) -> None:
        self.answers.keep(self.answers.pending.model_copy(update=changed))

    def keep(self) -> None:
        """Keep the current draft with its changes. Raises InputError for other worklists."""
        self._refuse_no_draft()
        self.grade(self.highest)

    def drop(self) -> None:
        """Drop the current draft. Raises InputError for other worklists."""
        self._refuse_no_draft()
        self.grade(0)

    def keep_unreviewed(self) -> int:
        """Keep all drafts without a review, skipped drafts too; their number. Raises InputError for other worklists."""
        self._refuse_no_draft()
        self.answers.ask_again()
        left = len(self.worklist.items) - len(self.answers.given)
        for _ in range(left):
            self.grade(self.highest, reviewed=False)
        return left

    def rephrase(self, question: str) -> None:
        """Change the question of the current draft. Raises InputError for an empty one, and for other worklists."""
        self._refuse_no_draft()
        text = " ".join(question.split())
        if not text:
            raise InputError("the question is empty; drop it instead.")
        self._current()
        self._answer(question=text)

    def skip(self) -> None:
        """Skip the current item."""
        self.answers.keep(ItemAnswer(item=self._current(), skipped=True, who=self.who))

    def quote(self, passage: str, at: int | None = None) -> None:
        """Name the passage of the current item that answers, before its grade; ``at`` is its place in the text.

        White space around it is ignored. Raises InputError if the text does not have it.
        """
        item = self.worklist.items[self._current()]
        text = passage.strip()
        if not self.can_quote:
            raise InputError("qrels judge documents; a passage cannot be named in them.")
        if not text:
            raise InputError("the passage is empty.")
        if at is None and item.text.count(text) == 1:
            at = item.text.index(text)
        elif at is not None:
            at += len(passage) - len(passage.lstrip())
        if not is_in(text, item.text) or (at is not None and item.text[at : at + len(text)] != text):
            raise InputError("that is not in the text of this item; it must be verbatim.")
        if item.start is None and GAP.strip() in text:
            raise InputError(f"{GAP.strip()} stands for text that is not shown; name a passage on one side of it.")
        self._answer(quote=text, at=at)

    def choose_group(self, name: str | None) -> None:
        """Say that the current text is another place of the known answer ``name``, before its grade; None takes that
        back.

        Raises InputError for a group that ``groups`` does not have.
        """
        self._current()
        if name is not None and name not in self.groups:
            raise InputError(f"the labels of this question have no group {name!r} to choose; choose one that is shown.")
        self._answer(group=name)

    def undo(self) -> bool:
        """Take back the chosen group, or the named passage, or else the last unsaved answer; False if there is none."""
        could = self.answers.can_undo
        self.answers.undo()
        return could

    def save(self) -> list[Done]:
        """Merge the unsaved answers into the labels, as these are now; the changes.

        An item that is judged already stays as it is, and shows how far the judgments agree. Several people's answers
        are written under the name of each. Raises LabelsError for invalid labels, LabelsConflictError if the labels
        change during the save, RunError if they cannot be written; every answer is kept then.
        """
        unsaved = self.answers.unsaved
        if not unsaved:
            return []
        done, fresh = self._with_kept(lambda: self._merged(unsaved))
        self.answers.keep(ItemAnswer(written=fresh))
        self._others, self._earlier = self._judged_by_others()
        return [change for change in done if isinstance(change.change, Grade)]

    def _merged(self, unsaved: Sequence[int]) -> tuple[list[Done], list[int]]:
        """Write the unsaved answers that the labels lack; the changes, and these items."""
        self._labels.read()
        self._refuse_other_queries(self._labels)
        _, judged_now = self._judged_by_others()
        fresh = [item for item in unsaved if item not in judged_now]
        given = self.answers.given
        done: list[Done] = []
        for who in dict.fromkeys(given[item].who for item in unsaved):
            items = [item for item in fresh if given[item].who == who]
            tagged = [item for item in unsaved if given[item].who == who] if self.worklist.drawn == "random" else items
            grades = self._grades(items)
            changes: list[Change] = [*self._new_queries(items), *grades, *self._joined(grades), *self._tags(tagged)]
            done += self._labels.write(changes, who) if changes else []
        return done, fresh

    def _refuse_no_draft(self) -> None:
        if not self.worklist.is_drafted:
            raise InputError("this worklist has texts to grade; only drafted questions are kept, dropped or changed.")

    def _current(self) -> int:
        if self.answers.current is None:
            raise InputError("everything is answered; there is nothing to grade.")
        return self.answers.current

    def _speaks_of(self, label: Judgment, item: TextToGrade) -> bool:
        """True if a resolved label judges ``item``."""
        by_content = self._labels.library is None and self.worklist.form == "content"
        by_document = self.config is not None and self.config.evaluators.unit == "document"
        return speaks_of(label, item, by_content=by_content, by_document=by_document)

    def _judged_by_others(self) -> tuple[dict[str, tuple[Judgment, ...]], dict[int, int]]:
        """The resolved labels of each query, and the highest grade there of each item; this session's own judgments
        apart.
        """
        own, store = self._own, self._labels
        queries = tuple(
            replace(query, relevant_docs=tuple(label for label in query.relevant_docs
                                               if (query.id, replace(label, group=None)) not in own))
            for query in store.labels.queries
        )  # fmt: skip
        resolved = store.resolved(replace(store.labels, queries=queries))
        labels = {query.id: query.relevant_docs for query in resolved.queries}
        earlier = {}
        for number, item in enumerate(self.worklist.items):
            grades = [label.relevance for label in labels.get(item.query, ()) if self._speaks_of(label, item)]
            if grades:
                earlier[number] = max(grades)
        return labels, earlier

    @property
    def _own(self) -> set[tuple[str, Judgment]]:
        """The query and the judgment, without a group, of each item that this session judged first."""
        items = [item for item, answer in sorted(self.answers.given.items())
                 if answer.earlier is None or item in self.answers.written]  # fmt: skip
        return {(grade.query, replace(_as_judgment(grade), group=None)) for grade in self._grades(items)}

    def _grades(self, items: Sequence[int]) -> list[Grade]:
        """The judgment of each of ``items``; only kept drafts with an answer have one.

        It is in the chosen group, or in the group of a later text that says the same.
        """
        chosen = {(self.worklist.items[item].query, answer.group)
                  for item, answer in self.answers.given.items() if answer.earlier is None}  # fmt: skip
        grades = []
        for item in items:
            text, answer = self.worklist.items[item], self.answers.given[item]
            quote, at = _passage(text, answer)
            if text.draft is None or (answer.grade and quote):
                grade = judged(self.worklist.form, text.query, text, answer.grade or 0, quote, at)
                name = self._name(_as_judgment(grade)) if grade.relevance > 0 else None
                grades.append(replace(grade, group=answer.group or (name if (text.query, name) in chosen else None)))
        return grades

    def _joined(self, grades: Sequence[Grade]) -> Iterator[Grade]:
        """The changes of labels without a group that put them into the groups of ``grades``, which say the same."""
        for query in self._labels.labels.queries:
            by_group = {grade.group: grade for grade in grades if grade.query == query.id}
            for label in query.relevant_docs if by_group else ():
                if label.group is None and label.relevance > 0 and (grade := by_group.get(self._name(label))):
                    yield regraded(grade, label, label.relevance)

    def _new_queries(self, items: Sequence[int]) -> list[label_files.NewQuery]:
        """The kept drafts among ``items`` that the labels lack."""
        known = {(query.id, query.text) for query in self._labels.labels.queries}
        queries = []
        for item in items:
            text, answer = self.worklist.items[item], self.answers.given[item]
            question = answer.question or text.question
            if text.draft is not None and answer.grade and (text.query, normalised(question)) not in known:
                tags = [DRAFTED, text.draft.style]
                tags += [] if _passage(text, answer)[0] else [UNANSWERABLE]
                tags += [] if answer.reviewed else [NOT_REVIEWED]
                queries.append(label_files.NewQuery(text.query, question, tuple(tags)))
        return queries

    def _tags(self, items: Sequence[int]) -> list[label_files.TaggedQuery]:
        """The tags that say how the queries of ``items`` were chosen."""
        if self.worklist.kind == "overlay" or self.worklist.is_drafted:
            return []
        tag = DRAWN_AT_RANDOM if self.worklist.drawn == "random" else CHOSEN_BY_STAKES
        queries = dict.fromkeys(self.worklist.items[item].query for item in items)
        return [label_files.TaggedQuery(query, tag) for query in queries]

    def _with_kept(self, attempt: Callable[[], T]) -> T:
        """The result of ``attempt``; its LabelsError says that the answers are kept, and how to go on."""
        try:
            return attempt()
        except LabelsError as error:
            kept = len(self.answers.unsaved)
            if not kept:
                raise
            is_conflict = isinstance(error, label_files.LabelsConflictError)
            way = "save again" if is_conflict else "mend the labels, and save again"
            message = (
                f"{kept:,} answer{'s are' if kept > 1 else ' is'} kept here, and nothing was written; {way}, or run "
                "the same command again."
            )
            raise type(error)(*error.faults, Fault(str(self.answers.file), message=message)) from error


def _passage(item: TextToGrade, answer: ItemAnswer) -> Passage:
    if answer.quote is None and item.draft is not None:
        return item.draft.quote, item.draft.at
    return answer.quote, answer.at


def _as_judgment(grade: Grade) -> Judgment:
    spans = () if grade.start is None or grade.end is None else (Span(grade.start, grade.end),)
    return Judgment(grade.doc, grade.relevance, grade.quote, spans, None, grade.group)


FEWEST = 10
"""The fewest pairs with a kappa."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """The number ``n`` of items that both have graded, and how many of them got the same grade (``alike``).

    ``kappa`` is Cohen's, in [-1, 1], 0 for agreement by chance; with more than two grades, disagreements are weighted
    by the square of their distance (``is_weighted``). None for fewer than ``FEWEST`` pairs, and if one of the two gave
    all items the same grade.
    Source: Cohen 1960, Educational and Psychological Measurement 20; Cohen 1968, Psychological Bulletin 70.
    """

    n: int
    alike: int
    kappa: float | None
    is_weighted: bool


def agreement(pairs: Sequence[tuple[int, int]]) -> RaterAgreement:
    """The agreement of the two grades of each item."""
    n, alike = len(pairs), sum(first == second for first, second in pairs)
    grades = sorted({grade for pair in pairs for grade in pair})
    kappa = weighted_kappa(confusion(pairs, grades), grades) if n >= FEWEST else None
    return RaterAgreement(n, alike, None if kappa is None else kappa.value, is_weighted=len(grades) > 2)


def agreement_of(session: Session) -> RaterAgreement:
    """The agreement of the answers with the labels, over the items that these judged before."""
    return agreement([
        (answer.grade, answer.earlier) for item, answer in sorted(session.answers.given.items())
        if answer.grade is not None and answer.earlier is not None and item not in session.answers.written
    ])  # fmt: skip


def review_counts(session: Session) -> dict[str, int]:
    """The numbers of drafts that were ``kept``, ``changed`` and kept, ``dropped``, and kept ``unseen``."""
    given = session.answers.given.values()
    kept = [answer for answer in given if answer.grade]
    changed = sum((answer.question, answer.quote) != (None, None) for answer in kept)
    unseen = sum(not answer.reviewed for answer in kept)
    return {"kept": len(kept), "changed": changed, "dropped": len(given) - len(kept), "unseen": unseen}


def ending_lines(session: Session) -> list[str]:
    """The answers, the changed file, the agreement with earlier labels, and the next command."""
    answers, file, written = session.answers, from_here(session.file), session.answers.written
    given, left = len(answers.given), answers.total - len(answers.given) - len(answers.skipped)
    if session.worklist.is_drafted:
        counts = review_counts(session)
        changed = f", {counts['changed']:,} of them changed" if counts["changed"] else ""
        unseen = f", {counts['unseen']:,} without review" if counts["unseen"] else ""
        done = f"{given - counts['unseen']:,} of {answers.total:,} reviewed"
        change = f"{counted(counts['kept'], 'question')} added{changed}{unseen}; {counts['dropped']:,} dropped"
    else:
        done, change = f"{given:,} of {answers.total:,} graded", f"{counted(len(written), 'judgment')} written"
    out = f", {len(answers.skipped):,} left out" if answers.skipped else ""
    lines = [f"{done}{out}" + (f", {left:,} to go: the same command goes on" if left else ""), f"{file}: {change}"]
    lines += overtaken_lines(len(session.overtaken))
    alike = agreement_of(session)
    if alike.n:
        name = "weighted kappa" if alike.is_weighted else "kappa"
        kappa = "" if alike.kappa is None else f", {name} {alike.kappa:.2f}"
        same = "that are judged already got the same grade as before"
        lines.append(f"agreement: {alike.alike} of {alike.n} {same}{kappa}")
    if written:
        lines.append(f"next: {next_command(session)}")
    return lines


def overtaken_lines(count: int) -> list[str]:
    """The line about ``count`` answers that came after a judgment by another person; empty for 0."""
    verb = "was" if count == 1 else "were"
    return [f"{count:,} {verb} judged by somebody else meanwhile; theirs stays"] if count else []


def next_command(session: Session) -> str:
    """The command that scores the stored rankings by the new labels, or runs the new questions."""
    if session.worklist.is_drafted:
        return f"ragtrial run {shlex.quote(from_here(session.config_file))}" if session.config_file else "ragtrial run"
    labels = session.config_file if session.worklist.kind == "overlay" and session.config_file else session.file
    report = "latest" if session.worklist.report is None else from_here(session.worklist.report)
    config = ""
    if session.config_file not in (None, labels):
        config = f" --config {shlex.quote(from_here(session.config_file))}"
    return f"ragtrial rescore {shlex.quote(report)} --labels {shlex.quote(from_here(labels))}{config}"

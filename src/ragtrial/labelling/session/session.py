"""A worklist at work: the current item, the answers, and their way into the labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling.answers import NO_TEXT, has_passage, judged
from ragtrial.labelling.changes import Change, Done, Grade, NewQuery, TaggedQuery, current_user
from ragtrial.labelling.found_texts import GAP
from ragtrial.labelling.label_target import below, config_below
from ragtrial.labelling.session.agreement import RaterAgreement, agreement
from ragtrial.labelling.session.answers import ItemAnswer, Passage, SessionAnswers, answers_file
from ragtrial.labelling.session.work_labels import WorkLabels
from ragtrial.labelling.worklist import TextToGrade, Worklist, read_worklist
from ragtrial.labelling.write_back import LabelsConflictError
from ragtrial.progress import Progress, Silent
from ragtrial.records import CHOSEN_BY_STAKES, DRAFTED, DRAWN_AT_RANDOM, NOT_REVIEWED, UNANSWERABLE

T = TypeVar("T")

MOST_KEY = 9


@dataclass(frozen=True)
class SessionFiles:
    """The labels and the config of a session, if the worklist names others."""

    labels: Path | None = None
    config: Path | None = None


@dataclass(frozen=True)
class ReviewCounts:
    """The numbers of drafts that were ``kept``, ``changed`` and kept, kept ``unseen`` without a review, and dropped."""

    kept: int
    changed: int
    dropped: int
    unseen: int


class Session:
    """The answers to the worklist in ``file``; each is kept when it is given, and the same command goes on.

    ``highest`` is the highest grade, by default the highest in the labels, and at most 9. Raises InputError for an
    invalid worklist, invalid labels or labels of other queries, and if the worklist is open elsewhere.
    """

    def __init__(
        self,
        file: str | Path,
        files: SessionFiles | None = None,
        *,
        who: str | None = None,
        highest: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        files = files or SessionFiles()
        self.worklist: Worklist = read_worklist(file)
        self.who = who or current_user()
        self.highest = highest or max(1, min(MOST_KEY, self.worklist.highest_grade))
        folder, named = Path(file).absolute().parent, self.worklist.config
        self.config_file = files.config or (Path(named) if named else None)
        if files.config is not None:
            self.config: ExperimentConfig | None = load_config(files.config)
        else:
            self.config = None if self.config_file is None else config_below(self.config_file, folder, file)
        labels = files.labels or below(self.worklist.labels, folder, file, "--labels FILE")
        kept = below(answers_file(Path(file)), folder, file, "another worklist")
        self.answers = SessionAnswers(kept, _fingerprint(self.worklist), len(self.worklist.items))
        try:
            self._labels = self._with_kept(lambda: WorkLabels(self.worklist, labels, self.config, progress or Silent()))
            self._earlier = self._with_kept(self._judged_by_others)
        except BaseException:
            self.answers.close()
            raise

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
        return self._labels.file

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
    def passage(self) -> Passage | None:
        """The passage of the current item that answers: the named passage, or the quote of the draft."""
        return None if self.item is None else self.answers.pending.passage or _drafted(self.item)

    def reviewed(self) -> ReviewCounts:
        """The result for the drafts."""
        given = self.answers.given.values()
        kept = [answer for answer in given if answer.grade]
        return ReviewCounts(
            kept=len(kept),
            changed=sum(answer.question is not None or answer.passage is not None for answer in kept),
            dropped=len(given) - len(kept),
            unseen=sum(not answer.is_reviewed for answer in kept),
        )

    @property
    def overtaken(self) -> set[int]:
        """The items that another person judged between the answer and its save; that judgment stays."""
        given = self.answers.given
        return {item for item in self.answers.saved - self.answers.written if given[item].earlier is None}

    @property
    def is_finished(self) -> bool:
        """True if all items are answered or skipped, and saved."""
        return self.answers.current is None and not self.answers.unsaved

    def grade(self, grade: int, *, is_reviewed: bool = True) -> None:
        """Give the current item a grade. Raises InputError if it has no such grade."""
        item = self._current()
        if not 0 <= grade <= self.highest:
            raise InputError(f"the grade {grade} is not among 0 to {self.highest}; --highest {grade} would allow it.")
        if self.worklist.form != "document" and not self.worklist.items[item].text.strip():
            raise InputError(NO_TEXT)
        answer = replace(self.answers.pending, grade=grade, who=self.who, earlier=self._earlier.get(item))
        self.answers.keep(item, replace(answer, is_reviewed=is_reviewed))

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
        self.ask_again()
        left = len(self.worklist.items) - len(self.answers.given)
        for _ in range(left):
            self.grade(self.highest, is_reviewed=False)
        return left

    def rephrase(self, question: str) -> None:
        """Change the question of the current draft. Raises InputError for an empty one, and for other worklists."""
        self._refuse_no_draft()
        text = " ".join(question.split())
        if not text:
            raise InputError("the question is empty; drop it instead.")
        self.answers.keep(self._current(), replace(self.answers.pending, question=text))

    def skip(self) -> None:
        """Skip the current item."""
        self.answers.keep(self._current(), ItemAnswer(is_skipped=True, who=self.who))

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
        if not has_passage(item, text) or (at is not None and item.text[at : at + len(text)] != text):
            raise InputError("that is not in the text of this item; it must be verbatim.")
        if item.start is None and GAP.strip() in text:
            raise InputError(f"{GAP.strip()} stands for text that is not shown; name a passage on one side of it.")
        self.answers.keep(self._current(), replace(self.answers.pending, passage=Passage(text, at)))

    def undo(self) -> bool:
        """Take back the named passage or else the last unsaved answer; False if there is none."""
        could = self.answers.can_undo
        self.answers.undo()
        return could

    def ask_again(self) -> None:
        """Ask for skipped items again."""
        self.answers.ask_again()

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
        self.answers.mark_saved(fresh)
        self._earlier = self._judged_by_others()
        return [change for change in done if isinstance(change.change, Grade)]

    def _merged(self, unsaved: Sequence[int]) -> tuple[list[Done], list[int]]:
        """Write the unsaved answers that the labels lack; the changes, and these items."""
        self._labels.read()
        judged_now = self._judged_by_others()
        fresh = [item for item in unsaved if item not in judged_now]
        given = self.answers.given
        done: list[Done] = []
        for who in dict.fromkeys(given[item].who for item in unsaved):
            items = [item for item in fresh if given[item].who == who]
            tagged = [item for item in unsaved if given[item].who == who] if self.worklist.drawn == "random" else items
            changes: list[Change] = [*self._new_queries(items), *self._grades(items), *self._tags(tagged)]
            done += self._labels.write(changes, who) if changes else []
        return done, fresh

    def agreement(self) -> RaterAgreement:
        """The agreement of the answers with the labels, over the items that these judged before."""
        return agreement([
            (answer.grade, answer.earlier) for item, answer in sorted(self.answers.given.items())
            if answer.grade is not None and answer.earlier is not None and item not in self.answers.written
        ])  # fmt: skip

    def _refuse_no_draft(self) -> None:
        if not self.worklist.is_drafted:
            raise InputError("this worklist has texts to grade; only drafted questions are kept, dropped or changed.")

    def _current(self) -> int:
        if self.answers.current is None:
            raise InputError("everything is answered; there is nothing to grade.")
        return self.answers.current

    def _judged_by_others(self) -> dict[int, int]:
        """The grade in the labels of each item, this session's own judgments apart."""
        own = [item for item, answer in sorted(self.answers.given.items())
               if answer.earlier is None or item in self.answers.written]  # fmt: skip
        return self._labels.earlier(self._grades(own))

    def _grades(self, items: Sequence[int]) -> list[Grade]:
        """The judgment of each of ``items``; only kept drafts with an answer have one."""
        grades = []
        for item in items:
            text, answer = self.worklist.items[item], self.answers.given[item]
            passage = answer.passage or _drafted(text) or Passage("")
            if text.draft is None or (answer.grade and passage.text):
                form = self.worklist.form
                grades.append(judged(form, text.query, text, answer.grade or 0, passage.text or None, passage.at))
        return grades

    def _new_queries(self, items: Sequence[int]) -> list[NewQuery]:
        """The kept drafts among ``items`` that the labels lack."""
        queries = []
        for item in items:
            text, answer = self.worklist.items[item], self.answers.given[item]
            question = answer.question or text.question
            if text.draft is not None and answer.grade and not self._labels.has(text.query, question):
                tags = [DRAFTED, text.draft.style]
                tags += [] if answer.passage or _drafted(text) else [UNANSWERABLE]
                tags += [] if answer.is_reviewed else [NOT_REVIEWED]
                queries.append(NewQuery(text.query, question, tuple(tags)))
        return queries

    def _tags(self, items: Sequence[int]) -> list[TaggedQuery]:
        """The tags that say how the queries of ``items`` were chosen."""
        if self.worklist.kind == "overlay" or self.worklist.is_drafted:
            return []
        tag = DRAWN_AT_RANDOM if self.worklist.drawn == "random" else CHOSEN_BY_STAKES
        return [TaggedQuery(query, tag) for query in dict.fromkeys(self.worklist.items[item].query for item in items)]

    def _with_kept(self, attempt: Callable[[], T]) -> T:
        """The result of ``attempt``; its LabelsError says that the answers are kept, and how to go on."""
        try:
            return attempt()
        except LabelsError as error:
            kept = len(self.answers.unsaved)
            if not kept:
                raise
            way = "save again" if isinstance(error, LabelsConflictError) else "mend the labels, and save again"
            message = (
                f"{kept:,} answer{'s are' if kept > 1 else ' is'} kept here, and nothing was written; {way}, or run "
                "the same command again."
            )
            raise type(error)(*error.faults, Fault(str(self.answers.file), message=message)) from error


def _drafted(item: TextToGrade) -> Passage | None:
    quote = None if item.draft is None else item.draft.quote
    return None if item.draft is None or quote is None else Passage(quote, item.draft.at)


def _fingerprint(worklist: Worklist) -> str:
    """A hash that distinguishes the items of worklists."""
    rows = [[item.query, item.doc, item.start, item.end, item.text] for item in worklist.items]
    return hashlib.sha256(json.dumps([worklist.form, *rows]).encode()).hexdigest()[:16]

"""A worklist at work: what is asked now, what was answered, and how that comes into the labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling.answers import NO_TEXT, has_passage, judged
from ragtrial.labelling.changes import Change, Done, Grade, NewQuery, TaggedQuery, current_user
from ragtrial.labelling.confined import below, config_below
from ragtrial.labelling.pooling.item_texts import GAP
from ragtrial.labelling.pooling.worklist import WorkItem, Worklist, read_worklist
from ragtrial.labelling.session.answering import Answers, Passage
from ragtrial.labelling.session.journal import SessionJournal, journal_file
from ragtrial.labelling.session.rater_agreement import RaterAgreement, agreement
from ragtrial.labelling.session.work_labels import WorkLabels
from ragtrial.labelling.write_back import LabelsConflictError
from ragtrial.progress import Progress, Silent
from ragtrial.records import CHOSEN_BY_STAKES, DRAFTED, DRAWN_AT_RANDOM, NOT_REVIEWED, UNANSWERABLE, FoundText

T = TypeVar("T")

MOST_KEY = 9


@dataclass(frozen=True)
class PassagePlaces:
    """The files that a session is about, where others than the worklist names are wanted."""

    labels: Path | None = None
    config: Path | None = None


@dataclass(frozen=True)
class ReviewCounts:
    """How many drafts were ``kept``, of these ``changed``, and ``unseen``: kept although nobody reviewed them."""

    kept: int
    changed: int
    dropped: int
    unseen: int


class Session:
    """The answers to the worklist in ``file``, each kept as it is given: what ends, however it does, goes on there.

    ``highest`` is the highest grade that is given: by itself that of the labels, and no more than one key says.
    Raises InputError for a worklist or labels that cannot be read, for labels of other queries, and where somebody
    else labels this worklist at the moment.
    """

    def __init__(
        self,
        file: str | Path,
        places: PassagePlaces | None = None,
        *,
        who: str | None = None,
        highest: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        places = places or PassagePlaces()
        self.worklist: Worklist = read_worklist(file)
        self.who = who or current_user()
        self.highest = highest or max(1, min(MOST_KEY, self.worklist.highest_grade))
        folder, named = Path(file).absolute().parent, self.worklist.config
        self.config_file = places.config or (Path(named) if named else None)
        if places.config is not None:
            self.config: ExperimentConfig | None = load_config(places.config)
        else:
            self.config = None if self.config_file is None else config_below(self.config_file, folder, file)
        labels = places.labels or below(self.worklist.labels, folder, file, "--labels FILE")
        journal = below(journal_file(Path(file)), folder, file, "another worklist")
        self._journal = SessionJournal(journal, _fingerprint(self.worklist))
        try:
            self.answers = self._replayed()
            self._labels = self._with_kept(lambda: WorkLabels(self.worklist, labels, self.config, progress or Silent()))
            self._earlier = self._with_kept(lambda: self._labels.earlier(self._own()))
        except BaseException:
            self._journal.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let somebody else label this worklist; every answer is kept."""
        self._journal.close()

    @property
    def file(self) -> Path:
        """Where the answers go."""
        return self._labels.file

    @property
    def journal(self) -> Path:
        """Where they are kept until then."""
        return self._journal.file

    @property
    def item(self) -> WorkItem | None:
        """What is asked now; None when all is answered or left out."""
        current = self.answers.current
        return None if current is None else self.worklist.items[current]

    @property
    def can_quote(self) -> bool:
        """Whether the labels can say which passage it is."""
        return self.worklist.kind == "prompt_queries"

    @property
    def question(self) -> str:
        """The question of the current item, as it was changed; empty where nothing is asked."""
        return self.answers.question or (self.item.question if self.item else "")

    @property
    def passage(self) -> Passage | None:
        """What of the current item answers: what was named, or what the draft has."""
        return None if self.item is None else self.answers.passage or _drafted(self.item)

    def reviewed(self) -> ReviewCounts:
        """What became of the drafts."""
        given = self.answers.given.values()
        kept = [answer for answer in given if answer.grade]
        return ReviewCounts(
            kept=len(kept),
            changed=sum(answer.question is not None or answer.passage is not None for answer in kept),
            dropped=len(given) - len(kept),
            unseen=sum(not answer.is_reviewed for answer in kept),
        )

    @property
    def unsaved(self) -> int:
        """How many answers wait for a save, whether the labels judge their items already or not."""
        waiting = self.answers.given.keys() - self.answers.saved
        return len(waiting | {*self._unwritten()})

    @property
    def overtaken(self) -> frozenset[int]:
        """The items that somebody else judged between the answer and its save, which left that judgment as it is."""
        answers = self.answers
        return answers.overtaken & answers.given.keys() & self._earlier.keys() - answers.written

    @property
    def is_finished(self) -> bool:
        """Whether all is answered or left out, and saved."""
        return self.answers.current is None and not self.unsaved

    def grade(self, grade: int) -> None:
        """Give the current item a grade. Raises InputError if it has no such grade."""
        item = self._current()
        if not 0 <= grade <= self.highest:
            raise InputError(f"the grade {grade} is not among 0 to {self.highest}; --highest {grade} would allow it.")
        row = self.worklist.items[item]
        if self.worklist.form != "document" and not row.text.strip():
            raise InputError(NO_TEXT)
        self._do("grade", item=item, query=row.query, doc=row.doc, grade=grade)

    def keep(self) -> None:
        """Keep the current draft, as it is or was changed. Raises InputError for what is no draft."""
        self._refuse_no_draft()
        self.grade(self.highest)

    def drop(self) -> None:
        """Drop the current draft. Raises InputError for what is no draft."""
        self._refuse_no_draft()
        self.grade(0)

    def keep_unreviewed(self) -> int:
        """Keep all drafts that nobody has reviewed, those that were left out, too; how many these are.

        Raises InputError for a worklist of texts to grade.
        """
        self._refuse_no_draft()
        self.ask_again()
        left = len(self.worklist.items) - len(self.answers.given)
        for _ in range(left):
            self._do("grade", item=self._current(), grade=self.highest, seen=False)
        return left

    def rephrase(self, question: str) -> None:
        """Change the question of the current draft. Raises InputError for one that is empty, and for no draft."""
        self._refuse_no_draft()
        text = " ".join(question.split())
        if not text:
            raise InputError("the question is empty; drop it instead.")
        self._do("rephrase", item=self._current(), question=text)

    def skip(self) -> None:
        """Leave the current item out."""
        self._do("skip", item=self._current())

    def quote(self, passage: str, at: int | None = None) -> None:
        """Name the passage of the current item that answers, before its grade; ``at`` is its place in the text.

        White space around it does not count. Raises InputError for what is not in the text.
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
        if not has_passage(_as_found(item), text) or (at is not None and item.text[at : at + len(text)] != text):
            raise InputError("that is not in the text of this item; it must be verbatim.")
        if item.start is None and GAP.strip() in text:
            raise InputError(f"{GAP.strip()} stands for text that is not shown; name a passage on one side of it.")
        self._do("quote", item=self._current(), passage=text, at=at)

    def undo(self) -> bool:
        """Take back the passage that was named last or else the last answer; False if there is nothing to take back.

        What was written into the labels stays.
        """
        if self.answers.can_undo:
            self._do("undo")
            return True
        return False

    def ask_again(self) -> None:
        """Ask for what was left out again."""
        if self.answers.skipped:
            self._do("ask-again")

    def save(self) -> list[Done]:
        """Write what is not written yet into the labels; what that changed there.

        Items that are judged already stay as they are, and say how alike the judgments are; their answers count as
        saved with the others.

        Raises LabelsConflictError where the same queries were judged otherwise meanwhile: that is read then, and
        saving again adds what is not judged by it. Raises LabelsError where the labels have become invalid, RunError
        if they cannot be written. Nothing is written then, and every answer is kept. Where several people answered,
        what each of them did is written at once, under their own name.
        """
        done: list[Done] = []
        by_whom: dict[str, list[int]] = {}
        for item in self._unwritten():
            by_whom.setdefault(self.answers.given[item].who, []).append(item)
        for who, items in by_whom.items():
            done += self._with_kept(partial(self._written, items, who))
            self._do("write", items=items)
        if judged_already := sorted(self.answers.given.keys() - self.answers.saved):
            if self.worklist.drawn == "random":
                self._with_kept(partial(self._labels.write, self._tags(judged_already), self.who))
            self._do("save", items=judged_already)
        if by_whom:
            self._earlier = self._labels.earlier(self._own())
        return done

    def agreement(self) -> RaterAgreement:
        """How alike the answers are to the labels, over the items that these judged before they were asked."""
        apart = self.answers.written | self.overtaken
        pairs = [(answer.grade, self._earlier[item]) for item, answer in sorted(self.answers.given.items())
                 if item in self._earlier and item not in apart]  # fmt: skip
        return agreement(pairs)

    def _refuse_no_draft(self) -> None:
        if not self.worklist.is_drafted:
            raise InputError("this worklist has texts to grade; only drafted questions are kept, dropped or changed.")

    def _current(self) -> int:
        if self.answers.current is None:
            raise InputError("everything is answered; there is nothing to grade.")
        return self.answers.current

    def _do(self, did: str, **what: object) -> None:
        self.answers = self.answers.after(self._journal.add(did=did, who=self.who, **what))

    def _replayed(self) -> Answers:
        answers = Answers(len(self.worklist.items), {})
        for number, event in enumerate(self._journal.events, 2):
            try:
                answers = answers.after(event)
            except InputError as error:
                raise InputError(*(Fault(str(self.journal), number, 0, one.message) for one in error.faults)) from None
        return answers

    def _unwritten(self) -> list[int]:
        return [item for item in sorted(self.answers.given) if item not in self.answers.written
                and item not in self._earlier]  # fmt: skip

    def _own(self) -> list[Grade]:
        return self._grades(sorted(self.answers.sent & self.answers.given.keys()))

    def _grades(self, items: Sequence[int]) -> list[Grade]:
        """The judgments that ``items`` come to: one of each; of a draft with an answer that was kept."""
        made = []
        for item in items:
            row, answer = self.worklist.items[item], self.answers.given[item]
            passage = self._passage(item) or Passage("")
            if row.draft is None or (answer.grade and passage.text):
                found = _as_found(row)
                form = self.worklist.form
                made.append(judged(form, row.query, found, answer.grade, passage.text or None, passage.at))
        return made

    def _passage(self, item: int) -> Passage | None:
        """What of an item answers: the passage that was named, or that of the draft."""
        return self.answers.given[item].passage or _drafted(self.worklist.items[item])

    def _new_queries(self, items: Sequence[int]) -> list[NewQuery]:
        """The drafts among ``items`` that were kept and that the labels do not have yet."""
        made = []
        for item in items:
            row, answer = self.worklist.items[item], self.answers.given[item]
            text = answer.question or row.question
            if row.draft is not None and answer.grade and not self._labels.has(row.query, text):
                tags = [DRAFTED, row.draft.style]
                tags += [] if self._passage(item) else [UNANSWERABLE]
                tags += [] if answer.is_reviewed else [NOT_REVIEWED]
                made.append(NewQuery(row.query, text, tuple(tags)))
        return made

    def _written(self, items: list[int], who: str) -> list[Done]:
        new = [item for item in items if item not in self.answers.sent]
        self._do("send", items=items)
        try:
            changes: list[Change] = [*self._new_queries(items), *self._grades(items), *self._tags(items)]
            done = self._labels.write(changes, who)
            return [one for one in done if isinstance(one.change, Grade)]
        except LabelsConflictError:
            self._do("refuse", items=new)
            self._labels.read()
            self._earlier = self._labels.earlier(self._own())
            if overtaken := [item for item in items if item in self._earlier]:
                self._do("overtake", items=overtaken)
            raise

    def _tags(self, items: Sequence[int]) -> list[TaggedQuery]:
        """How the queries of ``items`` came to be judged, as labels with tags say it."""
        if self.worklist.kind == "overlay" or self.worklist.is_drafted:
            return []
        tag = DRAWN_AT_RANDOM if self.worklist.drawn == "random" else CHOSEN_BY_STAKES
        return [TaggedQuery(query, tag) for query in dict.fromkeys(self.worklist.items[item].query for item in items)]

    def _with_kept(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` returns; a LabelsError of it says that the answers are kept, and how to go on."""
        try:
            return attempt()
        except LabelsError as error:
            kept = len(self.answers.given.keys() - self.answers.saved)
            if not kept:
                raise
            way = "save again" if isinstance(error, LabelsConflictError) else "mend the labels, and save again"
            message = (
                f"{kept:,} answer{'s are' if kept > 1 else ' is'} kept here, and nothing was written; {way}, or run "
                "the same command again."
            )
            raise type(error)(*error.faults, Fault(str(self.journal), message=message)) from error


def _drafted(item: WorkItem) -> Passage | None:
    quote = None if item.draft is None else item.draft.quote
    return None if item.draft is None or quote is None else Passage(quote, item.draft.at)


def _as_found(item: WorkItem) -> FoundText:
    return FoundText(1, item.doc, item.title, item.start, item.end, None, item.text)


def _fingerprint(worklist: Worklist) -> str:
    """What tells the items of one worklist from those of another."""
    rows = [[item.query, item.doc, item.start, item.end, item.text] for item in worklist.items]
    return hashlib.sha256(json.dumps([worklist.form, *rows]).encode()).hexdigest()[:16]

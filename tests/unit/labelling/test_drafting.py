"""Drafting questions: what a model is asked, which replies make a draft, and from which passages."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrial.components.endpoints.chat import ChatReply
from ragtrial.config import load_config
from ragtrial.errors import CorpusError
from ragtrial.labelling.drafting import (
    STYLES,
    Answered,
    DraftOptions,
    DraftTask,
    PassageSearch,
    PlannedDraft,
    SourcePassage,
    draft_in,
    drafted,
    tasks_of,
)
from ragtrial.progress import Silent
from ragtrial.records import PromptQueries, Query, Span
from small_experiment import small_experiment

ASKED, UNANSWERED = DraftTask("factual", is_answerable=True), DraftTask("factual", is_answerable=False)
RETURNS = "You may return any item within thirty days. Keep the receipt and the box, or pay five euros."
WARRANTY = "Batteries are covered for six months, motors for two years. Water damage is not covered at all."
SHIPPING = "Parcels take two working days to arrive. On islands they take four days and cost nine euros more."


@pytest.fixture
def search(tmp_path: Path) -> PassageSearch:
    documents = {"shop/returns.md": RETURNS, "shop/warranty.md": WARRANTY, "post/shipping.md": SHIPPING}
    return PassageSearch(load_config(small_experiment(tmp_path, documents=documents)), Silent())


def test_texts_without_spaces_have_passages_and_headings_too(tmp_path: Path) -> None:
    documents = {"returns.txt": "您可以在三十天内退货。请保留收据。", "heading.txt": "退货政策"}
    found = PassageSearch(load_config(small_experiment(tmp_path, documents=documents)), Silent())
    assert [one.doc for one in found.sampled(5, 0)] == ["returns.txt"]


def test_documents_of_headings_alone_are_refused(tmp_path: Path) -> None:
    search = PassageSearch(load_config(small_experiment(tmp_path, documents={"a.md": "Hello you"})), Silent())
    with pytest.raises(CorpusError, match="no document has a passage of at least 5 words to ask about"):
        search.sampled(3, 0)


def passage(search: PassageSearch, text: str) -> SourcePassage:
    return next(search[position] for position in range(3) if search[position].text == text)


@pytest.mark.parametrize(("reply", "question", "answer"), [
    ("Question: How long?\nAnswer: thirty days", "How long?", "thirty days"),
    ("I think.\n\n**Question:** How long?\n**Answer:** \"thirty days\"\n", "How long?", "thirty days"),
    ("question: a?\nanswer: b\nQuestion: How long?\nAnswer: thirty\ndays", "How long?", "thirty\ndays"),
    ("1. Question: Number 6. How long?\n2. Answer: In 4. Then 5 days", "Number 6. How long?", "In 4. Then 5 days"),
    ("- **Q:** How long?\n- **A:** thirty days", "How long?", "thirty days"),
    ("问题：多久？\n答案：三十天", "多久？", "三十天"),
    ("質問：どのくらい？\n回答：「三十日」", "どのくらい？", "三十日"),
    ("질문: 얼마나?\n답변: 삼십일", "얼마나?", "삼십일"),
    ("Frage: Wie lange?\nAntwort: 30 Tage", "Wie lange?", "30 Tage"),
    ("Question : Combien ?\nRéponse : « trente jours »", "Combien ?", "trente jours"),
    ("Вопрос: Сколько?\nОтвет: тридцать дней", "Сколько?", "тридцать дней"),
    ("Question: How long?\nAnswer: thirty days\n\n- Note: none", "How long?", "thirty days\n\n- Note: none"),
    ("Answer: b\nQuestion: How long?", None, None),
    ("Question: How long?", None, None),
    ("Question:\nAnswer: thirty days", None, None),
    ("Question: How long?\nAnswer: none", None, None),
    (f"Question: {'long ' * 200}?\nAnswer: thirty days", None, None),
    ("How long? thirty days", None, None),
    ("", None, None),
    ("Question\uff1aHow long\uff1f\nAnswer\uff1athirty days", "How long\uff1f", "thirty days"),
    ("\uff31uestion: How long?\n\uff21nswer: thirty days", "How long?", "thirty days"),
    ("Question: How long?\nAnswer: \u300cthirty days\u300d", "How long?", "thirty days"),
    ("Question: \u00bbHow long?\u00ab\nAnswer: \u201ethirty days\u201c", "How long?", "thirty days"),
    ("Question\u2236 How long?\nAnswer\u2236 thirty days", "How long?", "thirty days"),
    ("> **Question**: How long?\n> **Answer**: thirty days", "How long?", "thirty days"),
])  # fmt: skip
def test_a_reply_names_question_and_answer_or_is_none(reply: str, question: str | None, answer: str | None) -> None:
    assert draft_in(reply, ASKED) == (None if question is None else (question, answer))


def test_answers_must_end_in_their_passage_and_nothing_else_counts(tmp_path: Path) -> None:
    assert draft_in("Question: Who made it?\nAnswer: none.", UNANSWERED) == ("Who made it?", None)
    assert draft_in("Question: How long?\nAnswer: thirty days", UNANSWERED) is None
    text = "\n\n".join(f"{RETURNS} {'word ' * 180}{number}." for number in range(2))
    search = PassageSearch(load_config(small_experiment(tmp_path, documents={"long.md": text})), Silent())
    first = min(search.sampled(2, 0), key=lambda passage: passage.span.start)
    answered = PlannedDraft(first, ASKED), ChatReply("Question: Until when?\nAnswer: word 0. You may return")
    assert counts_of(search, answered)[1].not_in_passage == 1


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, 1), st.integers(0, 5))
def test_fewer_tasks_are_the_first_of_more_and_shares_are_kept(few: int, more: int, share: float, seed: int) -> None:
    options = DraftOptions(unanswerable=share, seed=seed)
    few, more = sorted((few, more))
    tasks = tasks_of(more, options)
    assert tasks_of(few, options) == tasks[:few]
    assert abs(sum(not task.is_answerable for task in tasks) - share * more) <= 1
    counts = Counter(task.style for task in tasks)
    assert max(counts.values(), default=0) - min((counts[style] for style in STYLES), default=0) <= 1


def folders(tmp_path: Path, sizes: dict[str, int], text: str = RETURNS) -> PassageSearch:
    documents = {f"{name}/{number}.md": f"{text} Number {number}." for name, size in sizes.items()
                 for number in range(size)}  # fmt: skip
    return PassageSearch(load_config(small_experiment(tmp_path, documents={**documents, "headline.md": "Hello"})),
                         Silent())  # fmt: skip


def test_each_folder_has_its_share_and_a_smaller_sample_is_the_first_of_a_larger(tmp_path: Path) -> None:
    search = folders(tmp_path, {"a": 40, "b": 20, "c": 4})
    for seed in range(5):
        sample = search.sampled(32, seed)
        counts = Counter(one.doc.partition("/")[0] for one in sample)
        assert {name: abs(counts[name] - share) <= 1 for name, share in {"a": 20, "b": 10, "c": 2}.items()} == {
            "a": True, "b": True, "c": True,
        }  # fmt: skip
        assert search.sampled(9, seed) == sample[:9]
        assert len({one.position for one in sample}) == 32
    assert search.sampled(9, 0) != search.sampled(9, 1)
    everything = search.sampled(1000, 0)
    assert len(everything) == 64  # the headline is too short
    assert all(one.text == search.corpus.library.text(search.corpus.library.positions[one.doc])[
        one.span.start : one.span.end] for one in everything)  # fmt: skip


def test_a_document_has_a_second_passage_only_when_all_have_one(tmp_path: Path) -> None:
    long = "\n\n".join(f"{RETURNS} {'word ' * 180}{number}." for number in range(4))
    search = PassageSearch(
        load_config(small_experiment(tmp_path, documents={"long.md": long, "b.md": RETURNS, "c.md": WARRANTY})),
        Silent(),
    )
    assert {one.doc for one in search.sampled(3, 0)} == {"long.md", "b.md", "c.md"}
    assert Counter(one.doc for one in search.sampled(6, 0)) == {"long.md": 4, "b.md": 1, "c.md": 1}


def reply(search: PassageSearch, text: str, said: str, task: DraftTask = ASKED) -> Answered:
    return PlannedDraft(passage(search, text), task), ChatReply(said)


def counts_of(search: PassageSearch, *answered: Answered, labels: PromptQueries | None = None) -> Any:
    items, counts = drafted(answered, search, labels or PromptQueries(()))
    assert counts.drafts == len(items)
    return items, counts


def test_the_answer_must_be_in_the_passage_and_its_place_is_kept(search: PassageSearch) -> None:
    items, counts = counts_of(
        search,
        reply(search, RETURNS, "Question: Until when can I bring it back?\nAnswer: WITHIN  thirty days"),
        reply(search, WARRANTY, "Question: Is my drill insured for ever?\nAnswer: Batteries last for ever."),
        reply(search, SHIPPING, "Question: What about my motor?\nAnswer: motors for two years"),
    )
    assert (counts.replies, counts.not_in_passage, len(items)) == (3, 2, 1)
    cut = (PlannedDraft(passage(search, RETURNS), ASKED), ChatReply("Question: How?\nAnswer: within thirty", "length"))
    assert counts_of(search, cut)[1].unparsable == 1
    (draft,) = [item.draft for item in items]
    assert draft.quote == "within thirty days"  # as the document has it
    assert RETURNS[draft.at :].startswith(draft.quote)
    assert (items[0].doc, items[0].start, items[0].text) == ("shop/returns.md", 0, RETURNS)


POLITE = ["", "\n\nLet me know if you need more!", "\nHope this helps.", "\n\nIs there anything else?\nBest regards",
          "\n```", "\n---\nI chose the first sentence.", "\n\n以上です。", "\n\n希望对您有帮助！"]  # fmt: skip


@pytest.mark.parametrize("end", POLITE)
def test_what_a_model_says_behind_the_answer_is_no_part_of_it(search: PassageSearch, end: str) -> None:
    said = f"Question: Until when can I bring it back?\nAnswer: within thirty days{end}"
    items, _ = counts_of(search, reply(search, RETURNS, said))
    assert [item.draft.quote for item in items] == ["within thirty days"]
    said = f"Question: Do islands have a shop?\nAnswer: none{end}"
    items, _ = counts_of(search, reply(search, RETURNS, said, UNANSWERED))
    assert [item.draft.quote for item in items] == [None]


@pytest.mark.parametrize("written", ["收到后三十天内可以退货，运费由我们承担。",
                                     "收到后三十天内可以退货,运费由我们承担.",
                                     "「收到后三十天内可以退货，运费由我们承担。」"])  # fmt: skip
def test_punctuation_of_another_width_is_found_and_kept_as_the_document_has_it(tmp_path: Path, written: str) -> None:
    text = "退货很简单。收到后三十天内可以退货，运费由我们承担。退款会在五天内到账。"
    chinese = PassageSearch(load_config(small_experiment(tmp_path, documents={"a.txt": text})), Silent())
    answered = (PlannedDraft(chinese[0], ASKED), ChatReply(f"Question：什么时候用？\nAnswer：{written}"))
    items, _ = counts_of(chinese, answered)
    assert items[0].draft.quote.rstrip("。") == "收到后三十天内可以退货，运费由我们承担"


def test_copied_words_that_bm25_finds_at_once_are_left_out_and_others_stay(search: PassageSearch) -> None:
    answer = "\nAnswer: Batteries are covered for six months"
    copied = "Question: batteries covered six months abroad" + answer  # four of five words: 80% is too many
    own_words = "Question: batteries covered six weeks" + answer
    items, counts = counts_of(search, reply(search, WARRANTY, copied), reply(search, WARRANTY, own_words))
    assert counts.copied == 1
    assert [item.question for item in items] == [own_words.partition("\n")[0].removeprefix("Question: ")]
    assert search.copied_share("batteries covered six weeks", passage(search, WARRANTY)) == 0.75
    elsewhere = "Question: cost nine euros, the box\nAnswer: pay five euros"  # its own words, but another is first
    items, counts = counts_of(search, reply(search, RETURNS, elsewhere))
    assert (counts.copied, len(items)) == (0, 1)


def test_known_questions_are_left_out_and_those_without_an_answer_shown(search: PassageSearch) -> None:
    known = PromptQueries((Query("q1", "How long may I keep it?"),))
    said = "Question: how long  may I keep it\nAnswer: thirty days"
    again = "Question: Is there some deadline?\nAnswer: thirty days"
    items, counts = counts_of(search, *(reply(search, RETURNS, one) for one in (said, again, again)), labels=known)
    assert (counts.repeated, [item.query for item in items]) == (2, ["is-there-some-deadline"])
    said = "Question: Do islands have a shop?\nAnswer: none"
    items, counts = counts_of(search, reply(search, RETURNS, said, UNANSWERED))
    assert (counts.unparsable, items[0].doc, items[0].draft.quote) == (0, "post/shipping.md", None)
    assert passage(search, SHIPPING).span == Span(items[0].start, items[0].end)

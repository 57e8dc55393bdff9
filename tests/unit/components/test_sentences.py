"""Sentences cover a text and end where a reader would end them, in linear time; separators are what was meant."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from pydantic import ValidationError

from ragtrial.components.chunkers import sentences as sentence_rules
from ragtrial.components.chunkers.base import CHUNKERS, Ruler
from ragtrial.components.chunkers.plain import RecursiveChunker
from ragtrial.components.chunkers.sentences import sentences
from text_strategies import document_texts


def found(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentences(text)]


@given(text=document_texts)
def test_sentences_are_ascending_trimmed_disjoint_and_leave_out_white_space_alone(text: str) -> None:
    spans = sentences(text)
    for span in spans:
        assert span.start < span.end
        assert text[span.start : span.end] == text[span.start : span.end].strip()
    assert all(earlier.end <= later.start for earlier, later in pairwise(spans))
    assert "".join("".join(found(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("written", [
    # What stands between two bars is one sentence; the bars are put instead of the space between two.
    "Hold the button.| Is it green?| Good!| Done",
    'He said "Stop."| Then (so it seems.)| He left.| “Why?” she asked.| ‘Well.’| No.',
    "Ask Dr. Smith vs. J. R. Doe, Prof. Ames or Mrs. Hill.| They know.",
    "It took 5 ms. |Then 3.14 s.| See https://a.example/b.c?d=e! |Version 2.1.0 is out.",
    "Use e.g. this, i.e. that (cf. Fig. 3 and No. 7).| The answer is no.| Next.",
    "Es gibt Lampen, z. B. rote, u. a. im Hof.| Das ist Plan b. |Er geht.",
    "ღილაკი მწვანეა. |დააჭირეთ მას. |ასეა?| კი.",
    "The U.S. Army left the U.S. |The rest stayed.| At 5 p.m. |We saw Jan. 5 pass.",
    "Wait... what?| Wait...| What?| Wait… |No.",
    "It was shown.[12]| It was not.[3][4]| Smith et al. 2020 say so.",
    "**Bold.**| _Slanted?_| `code`.| Then ¿qué?| ¡Sí!| Ça va.| «Oui.»| Non.",
    "A." * 20 + " Smith, or " + "A." * 21 + "| Smith.",  # an acronym has at most 40 characters
    "Plan B. |The plan failed.| 1. is a number.| In 2020. |It ended.",
    "12. Dr. Who came.| Twice.",
    "これはペンです。|「はい。」と言った。|３．１４です。|本当？|はい！",
    "他说：“好。”|她走了。|真的吗？|是。",
    "यह है। |वह है।",
    "هل هذا صحيح؟ |نعم.",
    "one line\nand the next of it. |Then more",
])  # fmt: skip
def test_a_sentence_ends_where_a_reader_ends_it(written: str) -> None:
    assert found(written.replace("|", "")) == [part.strip() for part in written.split("|")]


@pytest.mark.parametrize(("text", "expected"), [
    ("no stop\n\nbut a blank line\n \nor two", ["no stop", "but a blank line", "or two"]),
    ("Take:\n- one\n- two\n  of them\n* three", ["Take:", "- one", "- two\n  of them", "* three"]),
    ("1. Open it\n2) Look\n(3) Close\na) now", ["1. Open it", "2) Look", "(3) Close", "a) now"]),
    ("before\n# Heading\nText of it", ["before", "# Heading", "Text of it"]),
    ("Heading\n=====\nText\n---\nMore", ["Heading\n=====", "Text\n---", "More"]),
    ("Sizes:\n| a | b |\n|---|---|\n| 1 | 2 |", ["Sizes:", "| a | b |", "|---|---|", "| 1 | 2 |"]),
    ("Run\n```\nls\n```\nthen", ["Run", "```", "ls", "```", "then"]),
    ("a - b\n-5 degrees", ["a - b\n-5 degrees"]),
    ("*Note* that\n*this* holds", ["*Note* that\n*this* holds"]),
    ("", []),
    (" \n\u3000", []),
    ("...", ["..."]),
    (". a", [". a"]),
    ("\n\nDr.\n\nWho", ["Dr.", "Who"]),
])  # fmt: skip
def test_blank_lines_items_headings_and_tables_end_a_sentence(text: str, expected: list[str]) -> None:
    assert found(text) == expected


HARD = [
    ".", "(", ". ", ".(", ". (", "a.", "\n", "- ", "-\n", " ", "1. ", ".[1", ".\n ", "[", '"', "#\n", "。", '."',
    "1.\u00a0", "\t-", "Dr. ", "A. ", "A.", ". a ", "?! ", "- - ", "é", "1", ".[1]", "No. 1 ",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mark", HARD)
def test_a_long_row_of_marks_is_cut_to_its_end(mark: str) -> None:
    """No clock is needed: time that grew as the square of the length would be an hour."""
    text = mark * (100_000 // len(mark))
    spans = sentences(text)
    covered = sum(len("".join(text[span.start : span.end].split())) for span in spans)
    assert covered == len("".join(text.split()))


SCRIPTS = {
    "Chinese": "退货须在三十天内申请。|电池保修期为六个月！|运费由谁承担？|由买家承担。",
    "Japanese, quoted": "「はい。」と言った。|扉を閉めてください。|灯りがつきます。",
    "Hindi": "बटन दबाएं। |बत्ती हरी होगी। |दरवाज़ा बंद करें॥",
    "Arabic": "هل الباب مغلق؟ |اضغط على الزر؟ |نعم",
    "Armenian": "Սեղմեք կոճակը։ |Լույսը կանաչ է։ |Փակեք դուռը։",
    "Amharic": "ቁልፉን ይጫኑ።|መብራቱ አረንጓዴ ነው።|በሩን ይዝጉ።",
    "Chakma, beyond 16 bits": "𑄌𑄋𑄴𑄟𑄳𑄦𑅁|𑄞𑄌𑄴𑅁|𑄞𑄌𑄴𑅁",
    "Georgian": "ღილაკი მწვანეა. |დააჭირეთ მას. |კარი ღიაა.",
    "Hebrew": "הכפתור ירוק. |לחץ עליו! |האם הוא דלוק?",
    "Burmese": "ဖွင့်ပါ။ |ပိတ်ပါ။ |ထိုင်ပါ။",
    "Khmer": "ចុចប៊ូតុង។ |ភ្លើងភ្លឺ។ |បិទទ្វារ។",
    "Urdu": "بتی سبز ہے۔ |بٹن دبائیں۔ |کیا وہ جلتی ہے؟",
    "Japanese, narrow": "ﾎﾞﾀﾝｦｵｽ｡|ﾋｶﾘｶﾞﾂｸ｡|ｵﾜﾘ｡",
    "two by turns": "他昨天走了。|It is red. |门是开的吗？|Shut it. |它是开着的。",
}


@pytest.mark.parametrize("kind", ["sentence", "recursive", "markdown"])
@pytest.mark.parametrize("written", SCRIPTS.values(), ids=SCRIPTS)
def test_every_chunker_cuts_behind_the_marks_that_end_sentences_in_any_script(kind: str, written: str) -> None:
    """With room for one sentence and the space behind it, no chunk has two, and none begins or ends inside of one."""
    text, expected = written.replace("|", ""), [part.strip() for part in written.split("|")]
    longest = max(map(len, written.split("|")))
    assert longest < min(len(one) + len(other) for one, other in pairwise(expected))
    ruler = Ruler(range(len(text)))
    chunker = CHUNKERS[kind].model_validate({"kind": kind, "unit": "characters", "size": longest, "overlap": 0})
    assert [text[span.start : span.end] for span in chunker.split(text, ruler)] == expected


def test_the_marks_are_those_with_unicodes_property() -> None:
    """Of characters that this Python and its ``regex`` both know."""
    regex = pytest.importorskip("regex")
    every = "".join(map(chr, range(0x110000)))
    terminal = set(regex.findall(r"\p{STerm}", every))
    marks = set(re.findall(f"[{sentence_rules.WIDE}{sentence_rules.WIDE_BEYOND}]", every))
    assert terminal - marks <= set(sentence_rules.SPACED)
    assert marks <= terminal


@pytest.mark.parametrize(("written", "meant"), [
    ("\\n", r'"\n"'), ("\\t", r'"\t"'), ("\\r\\n", r'"\r\n"'), ("\\n## ", r'"\n## "'), ("。\\n", r'"。\n"'),
    ("\\n\\nArticle ", r'"\n\nArticle "'), (" \\n ", r'" \n "'),
])  # fmt: skip
def test_a_line_end_in_single_quotes_of_yaml_is_an_error_that_says_how_to_write_it(written: str, meant: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RecursiveChunker(separators=(written, " ", ""))
    assert f"'{written}' has a backslash and a letter, as single quotes of YAML leave them" in str(caught.value)
    assert f"write it in double quotes: {meant}." in str(caught.value)


@pytest.mark.parametrize("separator", ["\\section", "\\newpage", "\\textbf", "\\\\", "\\\\n", "\n\n", "\\d"])
def test_a_separator_that_is_meant_with_its_backslash_is_taken(separator: str) -> None:
    assert RecursiveChunker(separators=(separator, "")).separators == (separator, "")

"""What counts as a word when words are looked up."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from ragtrial.components.terms import STOP_WORD_LANGUAGES, Analyzer, TermLists, read_stop_words, stop_words_of
from ragtrial.errors import ConfigError

BARE = Analyzer("none", ())
ENGLISH = Analyzer("english", stop_words_of("english"))


@pytest.mark.parametrize(("text", "terms"), [
    ("Error ERR-2041!", "error err-2041 err 2041"),
    ("v2.3.1 of 2.3", "v2.3.1 v2 3 1 of 2.3"),
    ("max_connections, __init__ and _so_", "max_connections max connections init and so"),
    ("well-known node.js, and/or", "well known node js and or"),
    ("HTTP/2 at 10:30 on 2024-01-15", "http/2 http 2 at 10:30 10 30 on 2024-01-15 2024 01 15"),
    ("p = 0.05 at 10.0.0.1.", "p 0.05 at 10.0.0.1 10 0 0 1"),
    ("C++, C# and x+y, item#7", "c++ c# and x y item 7"),
    ("the U.S. and the US, e.g. here", "the us and the us eg here"),
    ("user's l’avion don't O'Brien", "user avion don brien"),
    ("'quoted' x' 'y", "quoted x y"),
    ("getUserById", "getuserbyid"),
    ("a -- b... c_", "a b c"),
    ("_ __ ' - . #", ""),
    ("", ""),
    ("Straße STRASSE", "strasse strasse"),
    ("ﬁle ＥＲＲ－２０４１ IL‑6 IL−6", "file err-2041 err 2041 il-6 il 6 il-6 il 6"),
    ("infor\u00admation", "information"),
    ("İstanbul", "istanbul"),
    ("हिन्दी में", "हिन्दी में"),
    ("𑄌𑄋𑄴𑄟𑄳𑄦 😀", "𑄌𑄋𑄴𑄟𑄳𑄦"),
    ("می\u200cخواهم", "می\u200cخواهم"),
    ("ภาษาไทย", "ภาษาไทย"),
    ("東京都のカメラ", "東 京 都 の カ メ ラ 東京 京都 都の のカ カメ メラ"),
    ("猫", "猫"),
    ("猫の食べ物", "猫 の 食 べ 物 猫の の食 食べ べ物"),
    ("增值税，税率", "增 值 税 增值 值税 税 率 税率"),
    ("エラーERR-2041です、第3章", "エ ラ ー エラ ラー err-2041 err 2041 で す です 第 3 章"),
    ("ｶﾒﾗ", "カ メ ラ カメ メラ"),
    ("한국어 검색", "한 국 어 한국 국어 검 색 검색"),
    ("서울은", "서 울 은 서울 울은"),
    ("AI는 3월에", "ai 는 3 월 에 월에"),
    ("𠮷野家", "𠮷 野 家 𠮷野 野家"),
])  # fmt: skip
def test_words_are_folded_codes_are_parts_and_unspaced_scripts_are_characters_and_pairs(text: str, terms: str) -> None:
    """As Lucene's CJKBigramFilter with outputUnigrams has them, which orders them by place instead."""
    assert BARE.terms(text) == [unicodedata.normalize("NFKC", term) for term in terms.split(" ") if term]


@pytest.mark.parametrize(("question", "document"), [
    ("猫", "我家的猫很可爱"), ("税", "消費税は10%です"), ("서울", "서울은 대한민국의 수도이다."),
    ("제주도", "제주는 섬이다."), ("집", "집이 크다"), ("firewall", "fire\u200bwall"),
    ("Wiederaufnahme", "Wieder\u00adauf\u00adnahme"),
    ("שלום", "\u200fשלום\u200f"), ("ខ្មែរ", "ភាសា\u200bខ្មែរ"),
])  # fmt: skip
def test_a_question_shares_a_term_with_a_text_that_has_its_word(question: str, document: str) -> None:
    assert set(BARE.terms(question)) & set(BARE.terms(document))


def test_stop_words_go_before_stemming_and_every_language_has_some() -> None:
    assert Analyzer("none", ("的", "什么")).terms("猫的什么") == ["猫", "什", "么", "猫的", "的什"]
    assert Analyzer("none", stop_words_of("korean")).terms("그리고 서울") == ["서", "울", "서울"]
    assert ENGLISH.terms("The systems are failing with timeouts_v2 in PLANS") == [
        "system", "fail", "timeouts_v2", "timeout", "v2", "plan",
    ]  # fmt: skip
    assert Analyzer("porter", ()).terms("generically") != Analyzer("english", ()).terms("generically")
    assert Analyzer("german", ("Über", "v2.3")).terms("über Häusern v2.3 3") == ["haus", "v2", "3", "3"]
    assert Analyzer("none", ("don't",)).terms("don't do") == ["do"]
    from bm25s import stopwords

    theirs = [frozenset(words) for name, words in vars(stopwords).items() if name.startswith("STOPWORDS_")]
    ours = [stop_words_of(language) for language in STOP_WORD_LANGUAGES]
    assert set(ours) == set(theirs)
    assert len(ours) == len(theirs)
    assert "und" in stop_words_of("german")
    assert stop_words_of("english") < stop_words_of("english_plus") | {"such", "into", "their", "will"}
    assert stop_words_of("none") == frozenset()


texts = st.text(st.sampled_from("aAbBeé1 29-._:/'’#+ßİ字カ的ก्क\u0301\u00ad\n"), max_size=30)


@given(texts, texts)
def test_the_terms_of_two_texts_are_those_of_one_after_those_of_the_other(one: str, other: str) -> None:
    assert BARE.terms(f"{one} {other}") == BARE.terms(one) + BARE.terms(other)


@given(texts)
def test_no_term_is_empty_and_neither_case_nor_unicode_form_matters(text: str) -> None:
    terms = ENGLISH.terms(text)
    assert all(term and not term.isspace() for term in terms)
    for form in ("NFC", "NFD"):
        assert BARE.terms(unicodedata.normalize(form, text)) == BARE.terms(text)
    assert BARE.terms(text.swapcase().casefold()) == BARE.terms(text.casefold())


@given(texts.filter(str.isascii))
def test_plain_text_has_the_same_terms_beside_letters_of_other_scripts(text: str) -> None:
    assert BARE.terms(f"{text} é") == [*BARE.terms(text), "é"]
    assert BARE.terms(f"{text} 𐐀") == [*BARE.terms(text), "𐐨"]


def test_many_words_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtrial.components.terms._MOST_REMEMBERED", 3)
    analyzer = Analyzer("english", ())
    assert analyzer.terms("cats dogs birds cows cats pigs") == ["cat", "dog", "bird", "cow", "cat", "pig"]
    assert len(analyzer._remembered) <= 3


def test_a_file_of_stop_words_has_one_a_line_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "stop.txt"
    file.write_text("# ours\nthe\n\n  Of # as it is\n", encoding="utf-8")
    assert read_stop_words(file) == {"the", "Of"}


@pytest.mark.parametrize(("content", "message"), [
    (b"the\nof a\n", "{file}:2: 'of a' is more than one word; write one word a line."),
    (b"# none\n", "{file}: has no words; write one a line, or `stop_words: none`."),
    (b"a\ncaf\xe9\n", "{file}:2: byte 0xe9 is not UTF-8; save the file as UTF-8 (iconv -f CP1252 -t UTF-8)."),
])  # fmt: skip
def test_a_wrong_file_of_stop_words_is_named_with_its_line(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "stop.txt"
    file.write_bytes(content)
    assert message_of(ConfigError, read_stop_words, file) == message.format(file=file)


def test_terms_are_written_in_order_and_titles_by_their_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtrial.components.terms._FLUSHED_AT", 2)
    done: list[int] = []
    TermLists.write(tmp_path, [("T", "a b a"), ("", ""), ("U", "b")], BARE, 2, done.append)
    lists = TermLists(tmp_path)
    assert lists.vocabulary == {"t": 0, "a": 1, "b": 2, "u": 3}
    assert list(lists) == [[0, 0, 1, 2, 1], [], [3, 3, 2]]
    assert (len(lists), lists.total, sum(done)) == (3, 8, 3)


@pytest.mark.parametrize("file", ["terms.bin", "offsets.npy", "vocabulary.json"])
def test_damaged_terms_are_told(file: str, tmp_path: Path) -> None:
    TermLists.write(tmp_path, [("", "a b a")], BARE, 1)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content.replace(b'"a"', b'"b"') if file.endswith(".json") else content[:-4])
    with pytest.raises(ValueError, match=r"fit together|mmap length|ends after"):
        TermLists(tmp_path)

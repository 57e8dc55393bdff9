"""Web pages become a title and the text that a reader sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.dataset import markup
from ragtrial.dataset.markup import page_text
from text_strategies import words


@pytest.mark.parametrize(
    ("page", "title", "text"),
    [
        ("<title> Reset\n the  hub </title><p>Hold.", "Reset the hub", "Hold."),
        ("<p>One</p><p>Two</p>", "", "One\n\nTwo"),
        ("one<br>two<br/>three", "", "one\ntwo\nthree"),
        ("<ul><li>a</li><li>b</li></ul>", "", "a\n\nb"),
        ("<h1>Hub</h1><h3>Lights</h3>Red.", "", "# Hub\n\n### Lights\n\nRed."),
        ("a <b>bold</b> <i>word</i>, un<em>believ</em>able", "", "a bold word, unbelievable"),
        ("<p>tabs\tand\nlines\r\n  fold</p>", "", "tabs and lines fold"),
        ("a<!-- hidden -->b", "", "ab"),
        ("plain text, no tag", "", "plain text, no tag"),
        ("", "", ""),
    ],
)
def test_blocks_become_lines_and_headings_become_markdown(page: str, title: str, text: str) -> None:
    assert page_text(page) == (title, text)


@pytest.mark.parametrize("tag", ["script", "style", "template", "noscript", "svg"])
def test_what_a_reader_does_not_see_is_dropped(tag: str) -> None:
    assert page_text(f"<p>before</p><{tag}>let hidden = 1;</{tag}><p>after</p>") == ("", "before\n\nafter")


def test_markup_inside_a_script_is_not_markup() -> None:
    assert page_text("<script>if (a < b) document.write('<p>no</p>');</script>yes") == ("", "yes")


def test_the_title_of_a_drawing_is_not_the_title_of_the_page() -> None:
    page = "<title>Page</title><svg><title>Drawing</title><text>ink</text></svg>after"
    assert page_text(page) == ("Page", "after")


def test_entities_are_read_as_characters() -> None:
    page = "<title>A &amp; B</title><p>5 &lt; 6&nbsp;&#8364; &#x1F642; &eacute; AT&T &unknown;"
    assert page_text(page) == ("A & B", "5 < 6 € 🙂 é AT&T &unknown;")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a<p>b<p>c", "a\n\nb\n\nc"),
        ("<div><b>a<p>b", "a\n\nb"),
        ("<h2>Head", "## Head"),
        ("<p>a</p></div></b>b</script>c", "a\n\nbc"),
        ("seen<script>never closed <p>x</p>", "seen"),
        ("seen<style>p {", "seen"),
        ("<ul><li>a<li>b", "a\n\nb"),
        ("<textarea>a<b></textarea>c", "a<b>c"),
        ("a" + "<!--" * 20_000, "a"),
        ("a" + "<a href='" * 20_000, "a"),
        ("<div>" * 1_990 + "deep", "deep"),
    ],
)
def test_unclosed_and_stray_tags_lose_no_text_that_is_seen(page: str, text: str) -> None:
    assert page_text(page)[1] == text


@pytest.mark.parametrize("section", ["<![if !IE]>", "<![endif]>", "<![CDATA[x]]>", "<![foo[x]]>", "<![foo]>", "<!x>"])
def test_declarations_that_nobody_sees_are_passed_over(section: str) -> None:
    assert page_text(f"<p>before {section}after</p>") == ("", "before after")


def test_many_blank_blocks_leave_one_blank_line() -> None:
    assert page_text("a" + "<p></p><div></div>" * 20 + "b") == ("", "a\n\nb")


_marks = st.sampled_from(
    ["<", ">", "</", "<!", "<![", "<!--", "-->", "]]>", "&", "&#", ";", '"', "=", "<p", "<br/>", "script", "<title>"]
)


@given(st.lists(st.one_of(_marks, words, st.text(max_size=4))).map("".join))
def test_any_bytes_at_all_are_read_without_an_error(page: str) -> None:
    title, text = page_text(page)
    assert title == title.strip()
    assert text == text.strip()
    assert "\n\n\n" not in text


@given(st.lists(st.one_of(_marks, words, st.text(max_size=4))).map("".join), st.integers(1, 20))
def test_a_page_reads_the_same_in_pieces(page: str, size: int) -> None:
    whole = page_text(page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markup, "_AT_ONCE", size)
        assert page_text(page) == whole


@given(st.lists(words, min_size=1))
def test_every_word_of_nested_blocks_is_kept_in_order(found: list[str]) -> None:
    page = "".join(f"<div><p>{word}</p><ul><li>{word}" for word in found)
    assert page_text(page)[1].split() == [word for word in found for _ in range(2)]


def test_the_blocks_of_a_folded_answer_stand_apart() -> None:
    html = "<details><summary>Can I return it?</summary>Yes, in 30 days.</details>"
    assert page_text(html)[1].split("\n") == ["Can I return it?", "Yes, in 30 days."]

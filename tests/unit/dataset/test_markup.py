"""Web pages become a title and the text that a reader sees."""

import pytest
from hypothesis import given, strategies as st

from ragtrial.dataset import markup
from ragtrial.dataset.markup import page_text
from text_strategies import words


@pytest.mark.parametrize(("page", "title", "text"), [
    ("<title> Reset\n the  hub </title><p>Hold.", "Reset the hub", "Hold."),
    ("<p>One</p><p>Two</p>", "", "One\n\nTwo"),
    ("one<br>two<br/>three", "", "one\ntwo\nthree"),
    ("<ul><li>a</li><li>b</li></ul>", "", "a\nb"),
    ("<h1>Hub</h1><h3>Lights</h3>Red.", "Hub", "# Hub\n\n### Lights\n\nRed."),
    ("a <b>bold</b> <i>word</i>, un<em>believ</em>able", "", "a bold word, unbelievable"),
    ("<p>tabs\tand\nlines\r\n  fold</p>", "", "tabs and lines fold"),
    ("a<!-- hidden -->b", "", "ab"),
    ("plain text, no tag", "", "plain text, no tag"),
    ("<script>if (a < b) document.write('<p>no</p>');</script>yes", "", "yes"),
    ("a" + "<p></p><div></div>" * 20 + "b", "", "a\n\nb"),
    ("<details><summary>Can I?</summary>Yes, in 30 days.</details>", "", "Can I?\nYes, in 30 days."),
    ("", "", ""),
])  # fmt: skip
def test_blocks_become_lines_and_headings_become_markdown(page: str, title: str, text: str) -> None:
    assert page_text(page) == (title, text)


LAYOUTS = {
    "indented code": ("<pre>def f(x):\n    return x\n\n\n\nf(1)</pre>", "def f(x):\n    return x\n\n\n\nf(1)"),
    "code that is coloured": ("<p>a</p><pre>\n<b>if</b> x:\n  <i>y</i></pre>b", "a\n\nif x:\n  y\n\nb"),
    "code that begins indented": ("<pre>  a\n    b\n</pre>", "  a\n    b"),
    "a text to fill in": ("<textarea>\nDear all,\n  yours</textarea>", "Dear all,\n  yours"),
    "white space kept by style": ('<div style="white-space: pre-wrap">a\n  b</div>', "a\n  b"),
    "code without words": ("<pre>a<br>  b</pre>", "a\n  b"),
    "a table": ("<table><tr><th>Model</th><th>Price</th></tr><tr><td>A1<td>10 EUR</table>", "Model\tPrice\nA1\t10 EUR"),
    "cells with blocks": ("<table><tr><td><p>A1</p><td><p>10</p><div>EUR</div></table>", "A1\t10 EUR"),
    "empty cells": ("<table><tr><td><th>Q1<tr><td>a<td><td>c</table>end", "Q1\na\t\tc\n\nend"),
    "parts of a table": (
        "<table><caption>T</caption><thead><tr><th>A</thead><tbody><tr><td>漢<br>字<tr><td>ไทย</tbody></table>",
        "T\nA\n漢 字\nไทย",
    ),
    "a list in a cell": ("<table><tr><td>x<td><ul><li>a<li>b</ul></table>", "x\ta b"),
    "a table of a page's layout": ("<table><tr><td><h2>H</h2><p>a<p>b<td>c</table>", "## H\n\na\n\nb\n\nc"),
    "code in a cell": ("<table><tr><td><pre>a\n  b</pre></table>", "a\n  b"),
    "items with paragraphs": ("<ol><li><p>один</p></li><li><p>два</p></li></ol>", "один\nдва"),
    "lists in lists": ("<ul><li>a<ul><li>b</ul><li>c</ul>d", "a\nb\nc\n\nd"),
    "line breaks": ("一<br>二<br><br>三<br><br><br>四", "一\n二\n\n三\n\n四"),
}


@pytest.mark.parametrize(("page", "text"), LAYOUTS.values(), ids=LAYOUTS)
def test_white_space_is_what_a_browser_shows(page: str, text: str) -> None:
    """As ``innerText`` has it: code as it is written, a row of a table or an item of a list on one line."""
    assert page_text(page)[1] == text


HIDDEN = {
    "hidden": "a<p hidden>x</p>b",
    "hidden by style": "a<div style='color: red; DISPLAY : none'>x<p>y</div>b",
    "invisible": "a<span style='visibility:hidden'>x</span>b",
    "a sign beside a heading": "a<a aria-hidden='true' href='#a'>¶</a>b",
    "the source of a formula": "a<math><annotation encoding='application/x-tex'>x^2</annotation></math>b",
    **{tag: f"a<{tag}>x</{tag}>b" for tag in ("script", "style", "template", "noscript", "svg")},
    "a dialog that is closed": "a<dialog><p>x</dialog>b",
    "a soft hyphen": "a&shy;b",
    "a zero-width space": "a&#8203;b",
    "a byte-order mark inside": "a\ufeffb",
}


@pytest.mark.parametrize("page", HIDDEN.values(), ids=HIDDEN)
def test_what_a_page_does_not_show_is_not_in_its_text(page: str) -> None:
    assert "".join(page_text(page)[1].split()) == "ab"


@pytest.mark.parametrize(
    "page", ["a<p hidden='until-found'>b</p>", "a<details>b</details>", "a<dialog open>b", "ก&#8203;ข", "ប&#8203;ក"]
)
def test_what_can_be_unfolded_and_what_parts_words_is_kept(page: str) -> None:
    assert page_text(page)[1] in ("a\n\nb", "a\nb", "ก\u200bข", "ប\u200bក")


@pytest.mark.parametrize(("page", "title"), [
    ("<title>A</title><h1>B</h1>", "A"), ("<title> </title><h1>B</h1>", "B"),
    ("<h1 hidden>x</h1><h1></h1><h1>B <em>c</em></h1><h1>D</h1>", "B c"), ("<h2>B</h2>", ""),
    ("<h1>Preis&shy;liste</h1>", "Preisliste"), ("<title>Прайс</title>", "Прайс"),
    ("<svg><title>x</title></svg><h1>猫</h1>", "猫"), ("<p>no heading", ""),
])  # fmt: skip
def test_the_title_is_that_of_the_page_else_its_first_heading(page: str, title: str) -> None:
    assert page_text(page)[0] == title


def test_entities_are_read_as_characters() -> None:
    page = "<title>A &amp; B</title><p>5 &lt; 6&nbsp;&#8364; &#x1F642; &eacute; AT&T &unknown;"
    assert page_text(page) == ("A & B", "5 < 6 € 🙂 é AT&T &unknown;")


@pytest.mark.parametrize(("page", "text"), [
    ("<p>a<p>b<p>c", "a\n\nb\n\nc"), ("<div><b>a<p>b", "a\n\nb"), ("<h2>Head", "## Head"),
    ("<p>a</p></div></b>b</script>c", "a\n\nbc"), ("seen<script>never closed <p>x</p>", "seen"),
    ("seen<style>p {", "seen"), ("<ul><li>a<li>b", "a\nb"), ("<textarea>a<b></textarea>c", "a<b>c"),
    ("a" + "<!--" * 20_000, "a"), ("a" + "<a href='" * 20_000, "a"), ("<div>" * 1_990 + "deep", "deep"),
])  # fmt: skip
def test_unclosed_and_stray_tags_lose_no_text_that_is_seen(page: str, text: str) -> None:
    assert page_text(page)[1] == text


@pytest.mark.parametrize("section", ["<![if !IE]>", "<![endif]>", "<![CDATA[x]]>", "<![foo[x]]>", "<![foo]>", "<!x>"])
def test_declarations_that_nobody_sees_are_passed_over(section: str) -> None:
    assert page_text(f"<p>before {section}after</p>") == ("", "before after")


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

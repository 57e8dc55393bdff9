"""Separators are what was meant: line ends, not the signs that spell them."""

import pytest
from pydantic import ValidationError

from ragtrial.components.chunkers.plain import RecursiveChunker


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("\\n", r'"\n"'), ("\\t", r'"\t"'), ("\\r\\n", r'"\r\n"'), ("\\n## ", r'"\n## "'), ("。\\n", r'"。\n"'),
        ("\\n\\nArticle ", r'"\n\nArticle "'), (" \\n ", r'" \n "'),
    ],
)  # fmt: skip
def test_a_line_end_in_single_quotes_of_yaml_is_an_error_that_says_how_to_write_it(written: str, meant: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RecursiveChunker(separators=(written, " ", ""))
    assert f"'{written}' has a backslash and a letter, as single quotes of YAML leave them" in str(caught.value)
    assert f"write it in double quotes: {meant}." in str(caught.value)


@pytest.mark.parametrize("separator", ["\\section", "\\newpage", "\\textbf", "\\\\", "\\\\n", "\n\n", "\\d"])
def test_a_separator_that_is_meant_with_its_backslash_is_taken(separator: str) -> None:
    assert RecursiveChunker(separators=(separator, "")).separators == (separator, "")

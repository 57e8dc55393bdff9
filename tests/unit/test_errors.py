"""Parts of messages: lists that are cut, and secrets that are not in them."""

import pytest

from ragtrial.errors import listed, without_secrets


def test_a_list_is_cut_only_if_names_are_left_out() -> None:
    assert (listed("abc", 3), listed("abcd", 3)) == ("a, b, c", "a, b, c, and 1 more")
    assert listed(map(str, range(14))).endswith(" 10, 11, and 2 more")


@pytest.mark.parametrize(("value", "hidden"), [("abcdef", True), ("abcde", False)])
def test_secrets_of_six_characters_on_are_put_back(monkeypatch: pytest.MonkeyPatch, value: str, hidden: bool) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", value)
    assert without_secrets(f"said {value}!") == ("said ${SEARCH_TOKEN}!" if hidden else f"said {value}!")

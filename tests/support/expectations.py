"""What tests expect of a call or of a value."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
T = TypeVar("T")


def message_of(
    error: type[BaseException], call: Callable[P, object], /, *arguments: P.args, **options: P.kwargs
) -> str:
    """The text of the ``error`` that ``call`` raises with these arguments; without one, the test fails."""
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


def present(value: T | None) -> T:
    """The ``value``; None fails the test."""
    assert value is not None
    return value

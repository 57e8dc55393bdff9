"""What errors say."""

from collections.abc import Callable
from typing import ParamSpec

import pytest

P = ParamSpec("P")


def message_of(
    error: type[BaseException], call: Callable[P, object], /, *arguments: P.args, **options: P.kwargs
) -> str:
    """The text of the ``error`` that ``call`` raises with these arguments; without one, the test fails."""
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)

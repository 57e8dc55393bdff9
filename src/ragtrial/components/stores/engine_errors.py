"""Errors of vector engines, turned into ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragtrial.errors import RagtrialError


def is_exception(error: BaseException) -> bool:
    return isinstance(error, Exception)


@contextmanager
def failing_as(
    made: Callable[[BaseException], RagtrialError], is_of_engine: Callable[[BaseException], bool] = is_exception
) -> Iterator[None]:
    """Raise ``made(error)`` instead of an error of the engine; our own errors pass as they are."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, RagtrialError) or not is_of_engine(error):
            raise
        raise made(error) from error


def one_line(error: BaseException) -> str:
    """The message of ``error`` in one line; the name of its class if it has none."""
    return " ".join(str(error).split()) or type(error).__name__

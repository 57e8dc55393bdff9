"""Who embeds the texts of documents: this process, or workers. A file for each kind, of its name, registers it."""

from typing import TYPE_CHECKING, Annotated, Any

from ragtrial.components.executors.base import EXECUTORS, Executor
from ragtrial.registry import AnyOf

if TYPE_CHECKING:
    AnyExecutor = Executor
else:
    AnyExecutor = Annotated[Any, AnyOf(EXECUTORS)]

__all__ = ["EXECUTORS", "AnyExecutor", "Executor"]

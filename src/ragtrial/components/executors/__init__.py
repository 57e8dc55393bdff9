"""Who embeds the texts of documents: this process, or workers. A file for each kind, of its name, registers it."""

from typing import Annotated

from ragtrial.components.executors.base import EXECUTORS, Executor
from ragtrial.registry import AnyOf

AnyExecutor = Annotated[Executor, AnyOf(EXECUTORS)]

__all__ = ["EXECUTORS", "AnyExecutor", "Executor"]

"""Who embeds the texts of documents: this process, or workers. One file per kind; each registers itself."""

import sys
from typing import TYPE_CHECKING

from ragtrial.components.executors.base import EXECUTORS, Executor
from ragtrial.options import union_of
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

if TYPE_CHECKING:
    AnyExecutor = Executor
else:
    AnyExecutor = union_of(EXECUTORS)

__all__ = ["EXECUTORS", "AnyExecutor", "Executor"]

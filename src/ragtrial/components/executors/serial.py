"""The run's own process embeds, a batch at a time."""

from __future__ import annotations

from typing import Literal

from ragtrial.components.embedders.base import Embedder
from ragtrial.components.executors.base import EXECUTORS, Executor


@EXECUTORS.register("serial")
class SerialExecutor(Executor):
    """The run's own process embeds, with one model on all cores or on one GPU."""

    kind: Literal["serial"] = "serial"
    """The run's own process embeds."""

    def start(self, embedder: Embedder) -> None:
        return None

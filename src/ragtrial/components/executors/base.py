"""What every executor owes."""

from __future__ import annotations

from abc import abstractmethod

from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.encoding import Workers
from ragtrial.options import Options
from ragtrial.registry import Registry


class Executor(Options):
    """Who embeds the texts of documents. Changes no vector, and no fingerprint."""

    kind: str

    @abstractmethod
    def start(self, embedder: Embedder) -> Workers | None:
        """Workers for the model of ``embedder``; None if this process embeds. Loads no model."""


EXECUTORS: Registry[type[Executor]] = Registry("executor", __package__)

"""How settings are chosen, one method a file, by the names that a config has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragtrial.config.search_options import Method
from ragtrial.search.methods.at_random import search_at_random
from ragtrial.search.methods.tpe import search_by_tpe
from ragtrial.search.session import Session

METHODS: Mapping[Method, Callable[[Session], None]] = {
    "random": search_at_random,
    "tpe": search_by_tpe,
}

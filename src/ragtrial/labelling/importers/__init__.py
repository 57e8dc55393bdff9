"""Labels of other tools, read and located in the documents: a module for each tool, which registers its reader."""

from __future__ import annotations

import sys

from ragtrial.registry import import_members

import_members(sys.modules[__name__])

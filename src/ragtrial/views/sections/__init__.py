"""Views of a comparison. One file per view; each registers itself."""

import sys

from ragtrial.registry import import_members
from ragtrial.views.sections.base import VIEWS, View, all_views, plot_names

import_members(sys.modules[__name__])

__all__ = ["VIEWS", "View", "all_views", "plot_names"]

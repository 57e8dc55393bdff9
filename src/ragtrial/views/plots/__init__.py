"""One plot of a comparison as a file for papers and slides: vectors with text as text, or pixels."""

from ragtrial.views.plots.drawing import NAMES, check_plot, draw, image

__all__ = ["NAMES", "check_plot", "draw", "image"]

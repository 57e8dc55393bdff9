"""Reports as text. Nothing is computed here; numbers are rounded once, on the way out."""

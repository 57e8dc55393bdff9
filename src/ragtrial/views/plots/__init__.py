"""One plot of a comparison as a file for papers and slides: vectors with text as text, or pixels."""

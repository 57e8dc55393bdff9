"""The part of scoring that is written in C: reading run files and looking documents up, and its doors to Python."""

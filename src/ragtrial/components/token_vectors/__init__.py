"""Models that give a text several vectors or weights: made, kept under the hash of the text, and compared exactly."""

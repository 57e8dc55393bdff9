"""Models that give a text several vectors or weights: computed once, kept under the text's hash, searched exactly."""

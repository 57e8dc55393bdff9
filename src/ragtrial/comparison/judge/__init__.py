"""A model's judgments beside those of people: what they are, what they are worth, and where they err."""

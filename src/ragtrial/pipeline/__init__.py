"""The stages of a run: what each is made from, how it is made, kept and read."""

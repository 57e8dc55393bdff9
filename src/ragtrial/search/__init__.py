"""The search for the best setting: which settings are tried next, and what may be said of the winner."""

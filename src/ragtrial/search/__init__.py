"""The search for the best setting: the settings to try next, and the verdict on the winner."""

"""Gates: conditions that turn a build red, expected scores, and what came of them."""

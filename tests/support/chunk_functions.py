"""A function that chunks, for the custom chunker."""


def paragraphs(text: str) -> list[str]:
    return text.split("\n\n")

"""What retrievers of the user's answer: asked for, read whatever its shape, placed in the documents, and kept."""

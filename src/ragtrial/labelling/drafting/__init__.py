"""Questions that a model drafts from passages of the documents, until a person has reviewed them."""

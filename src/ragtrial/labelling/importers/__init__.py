"""Labels of other tools, read and located in the documents."""

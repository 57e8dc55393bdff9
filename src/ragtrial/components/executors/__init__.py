"""Who embeds the texts of documents: this process, or workers. A file for each kind, of its name, registers it."""

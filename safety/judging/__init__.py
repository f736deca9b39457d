"""Judge answers as they are generated, a sentence or two at a time; text that is not judged yet is held."""

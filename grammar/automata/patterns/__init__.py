"""Parse the text of a regular expression to its syntax tree."""

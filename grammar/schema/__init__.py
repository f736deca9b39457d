"""JSON Schema: read, checked and turned into the shapes that the grammar compiles."""

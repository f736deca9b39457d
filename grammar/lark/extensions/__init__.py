"""What llguidance adds to Lark's notation, each beside the reader that meets it."""

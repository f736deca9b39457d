"""Read upstream answers, checking each field against its bound."""

"""From conjunctions of schema facts to readings of JSON values."""

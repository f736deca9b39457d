"""Arrays: what their items may be, how many there are, and what of them must differ or be equal."""

"""Reading what another server answers, each field against its bound."""

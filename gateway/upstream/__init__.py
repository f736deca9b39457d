"""Models that another server runs: asked over HTTP, judged here."""

"""Models that another server runs: asked over HTTP, judged here. Needs aiohttp only where one is configured."""

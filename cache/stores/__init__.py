"""Keep cache entries in memory, in a file or in Redis, and check what comes back from them."""

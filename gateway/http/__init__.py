"""HTTP below the routes: connections, middleware, error bodies and who may call what."""

"""A client of HTTP/1.1 for one server: connections that are kept, requests of one piece, answers that come in pieces.

Not covered: redirects, cookies, proxies, packed bodies, HTTP/2, bodies of requests that come in pieces.
"""

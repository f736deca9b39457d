"""The site: pages of reference made from the code, and mkdocs told of them. `python -m tools.site.build` builds it."""

"""Several processes of one gateway that serve one port."""

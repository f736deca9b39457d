"""Reading a request's body: its bounds, its shared fields and the fields that nobody knows."""

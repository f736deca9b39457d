"""CPU time and states that one piece of work may take."""

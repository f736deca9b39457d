"""Where memory of the process lies: room on stacks, huge pages."""

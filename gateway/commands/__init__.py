"""The command `sluicegate` and its subcommands."""

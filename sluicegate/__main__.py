"""Run the command line: `python -m sluicegate` does what `sluicegate` does."""

import sys

from sluicegate.gateway.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())

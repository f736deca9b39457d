"""What a request leaves behind: decisions as it runs, traces and explanations when it has ended."""

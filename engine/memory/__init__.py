"""Manage KV blocks: who references them, the tensors behind them, and offloaded copies of evicted ones."""

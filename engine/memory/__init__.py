"""KV blocks: who holds them, the tensors behind them, and evicted ones kept elsewhere."""

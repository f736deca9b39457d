"""From logits to tokens: parameters, masks, filters, draws."""

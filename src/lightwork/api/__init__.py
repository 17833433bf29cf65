"""A person's own training loop on many ranks: what `lightwork.connect` and its kin are made of."""

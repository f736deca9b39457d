"""The judge of sameness that an encoder is made to: its data, its training and its measure."""

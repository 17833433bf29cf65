"""Whether training on these ranks is what training on one would be: measured, row by row."""

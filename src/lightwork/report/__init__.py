"""What runs have done, read from their folders."""

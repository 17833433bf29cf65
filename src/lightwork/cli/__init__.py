"""The command line. Nothing here imports torch before a rank really starts to work."""

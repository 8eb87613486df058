"""Keeping count of what is on the shelves of a few small stores."""

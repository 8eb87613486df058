"""Lines end as on DOS."""


def both(left, right):
    """Return both arguments over
    two lines."""
    pair = """a
b"""
    return left, right, pair

"""Does not parse: left out."""


def find(shelf):
    """Return the first book of that shelf."""
    print "Python 2"

"""What the tokenizer does to strings, comments and lines."""

from .item import Book

RATES = {"book": 14, "film": 7, 3: "three"}


def strings_after_newline(book: Book):
    """Count the letters of the title in three steps."""
    "this string directly follows a new line and is documentation too"
    count = len(book.title)
    "so is this one"

    "but this one follows an empty line and stays"
    if count:
        count += 1
    "this one follows a dedent and stays"
    # After a comment:
    "this one stays as well"
    return count


def argument_at_column_zero(book):
    """Join the title with a string that stands at the margin."""
    return "-".join([
"gone",
        book,
    ])


def joined_lines(book: Book, extra):
    """Add the pages over a line that goes on."""
    total = book.pages + \
        extra
    return total


def comments_only(book: Book):  # kept: the spaces before this
    # A comment before the documentation does not hide it.
    """Return the shelf although there are many comments."""

    # One.
    shelf = book.shelf  # Two.

        # Three, further in.
    return shelf


def positions_after_long_string(book: Book, reader):
    """Fill a letter and send it to the reader."""
    before = book.title
    letter = """
    Dear reader,

    bring it back.
    """
    after = letter.format(before)
    return reader, book.title, after


def keyword_arguments(shelf):
    """Make a book from names given as keywords."""
    return Book(title=shelf, shelf=shelf, pages=len(shelf))


def größe_in_zeichen(bücher: list, é):
    """Return the length of every title, letters beyond ASCII included."""
    ü = "ä€𝄞"; länge = len(ü)
    return [länge + é for buch in bücher if "ß𝄞" in buch], bücher


def ﬁnd(book: Book):
    """Return the title through a name that Python folds."""
    return book.title


def short(book: Book):
    'Return the place of a book in one line.'
    return book.place


def nested_formats(book: Book, width):
    """Return the title in a frame of that width."""
    return f"{book.title!r:>{width}} {', '.join(f'<{n}>' for n in book.pairs())}"


def written_keys(kind):
    """Return how long a kind may be kept."""
    return RATES["book"], RATES[3], RATES [ kind ], {'book': kind}['book']


def unknown_receiver(anything):
    """Return an attribute that no tool can know."""
    from .item import Item as write
    rate = 1.5e3
    rate += 0x1F if anything.there else ...
    return write(anything.here.there) @ rate, anything is not None


def has_trigger(book: Book):
    """Return the title with <lsp> and <COMP> in front of it."""
    return "<lsp><COMP>" + book.title + "<LSP-POINT-1>" + "<PLACEHOLDER>"

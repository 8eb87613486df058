"""One function for each rule of the dataset builder, and the cuts of the description."""


def empty_description(x):
    """

    Nothing before the first blank line.
    """
    return x


def first_character(x):
    """2 is what this returns most of the time."""
    return x


def two_words(x):
    """Returns it"""
    return x


def long_word(x):
    """Return the Donaudampfschifffahrtsgesellschaft of that name."""
    return x


def opening(x):
    """This one starts with a word that is not wanted."""
    return x


def note_opening(x):
    """Notebooks are rejected by their first letters too."""
    return x


def question(x):
    """Return it or not?"""
    return x


def word_and_colon(x):
    """Example: return what was given to it."""
    return x


def unwanted_text(x):
    """Return what stands at https://example.org today."""
    return x


def equals_sign(x):
    """Return x, by default x=1, to the caller."""
    return x


def test_nothing(x):
    """Return what a test of nothing returns."""
    return x


def single_line(x): "Return x on the line of the header."; return x


def only_documentation(x):
    """Have nothing but this text in it."""


def only_documentation_below_a_long_header(
    x,
):
    """Have a header of many lines and nothing else."""


def not_implemented(x):
    """Return something that another class knows."""
    raise NotImplementedError()


def bare_return(x):
    """Return nothing at all to the caller."""
    return  # really


def without_documentation(x):
    return x


def only_quotes(x):
    """ """
    return x


def cut_at_parameter(x):
    """Return what was given, unchanged :param x: what was given
    :return: the same
    """
    return x


def cut_at_sentence(x):
    """
    Return the first sentence of
    two. The other is cut.

    And this paragraph too.
    """
    return x


def last_line_with_capital(x):
    """Return the text without the line that follows
    Args are not explained here.

    Nor here."""
    return x


def lost_letters(x):
    'Unfold two letters at both ends of this'
    return x


def raw_documentation(x):
    r"""Return a backslash \ because this text is raw."""
    return x


def header_of_many_lines(
    first: dict = {"a": (1, 2)},  # a comment
    *rest: "tuple[int, ...]",
    key=lambda value: (value),
) -> "dict[str, int]":
    """Return what the shortest match of a header leaves."""
    return first, rest, key

"""Classes: overriding methods, decorators, nested and asynchronous functions."""

from functools import lru_cache


class Item:
    """Something that can be lent."""

    kind = "item"

    def __init__(self, title, shelf):
        """Remember the title and the shelf of a new item."""
        self.title = title
        self.shelf = shelf

    def label(self, width):
        """Return the text on the back of this item."""
        return self.title[:width].upper()

    @property
    def place(self):
        """Return where this item stands in the room."""
        return self.shelf.strip()

    @staticmethod
    @lru_cache(maxsize=None)
    def weight_of(pages):
        """Return a weight in grams for that many pages."""
        return pages * 5

    async def fetch(self):
        """Carry this item to the desk, which takes a while."""
        return self.place


class Book(Item):
    """An item with pages."""

    def __init__(self, title, shelf, pages):
        """Remember the pages too, besides what every item has."""
        super().__init__(title, shelf)
        self.pages = pages

    def label(self, width):
        """Return a shorter text because books are narrow."""
        return self.place[: width - 2]

    def pairs(self):
        """Return neighbouring pages of this book as pairs."""

        def pair(left):
            """Return one page and the page after it."""
            return left, left + 1

        return [pair(page) for page in range(self.pages)]

    @classmethod
    def blank(cls, shelf):
        """Return a book of white pages for this shelf."""
        return cls("", shelf, pages=0)

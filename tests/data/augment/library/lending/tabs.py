"""Indented with tabs."""


class Shelf:
	def __init__(self):
		self.books = []

	def add(self, book):
		"""Put a book on this shelf unless it stands there."""
		if book not in self.books:
			self.books.append(book)
			return True
		return False


def count(shelf: Shelf):
	"""Return how many books stand on a shelf."""
	books = shelf.books
	return	len(books)

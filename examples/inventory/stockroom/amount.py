"""Sums of money in whole minor units."""

from __future__ import annotations


class Amount:
    """A sum of money; never a float."""

    def __init__(self, minor_units: int, currency_code: str = "EUR") -> None:
        self.minor_units = minor_units
        self.currency_code = currency_code

    def plus(self, other: Amount) -> Amount:
        """Return the sum of two amounts of the same currency."""
        if other.currency_code != self.currency_code:
            raise ValueError(f"{self.currency_code} and {other.currency_code} do not add up")
        return Amount(self.minor_units + other.minor_units, self.currency_code)

    def scaled(self, factor: float) -> Amount:
        """Return this amount times a factor, rounded to whole minor units."""
        return Amount(round(self.minor_units * factor), self.currency_code)

    def as_label(self) -> str:
        """Return the amount as it stands on a price tag."""
        return f"{self.minor_units / 100:.2f} {self.currency_code}"

"""Two functions with the same text: both are cut when the tool is asked about one of them."""


class Left:
    name = "left"

    def describe(self):
        """Return the name of this side in words."""
        return self.name.title()


class Right:
    names = ["right"]
    name = "right"

    def describe(self):
        """Return the name of this side in words."""
        return self.name.title()

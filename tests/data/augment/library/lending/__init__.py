"""Who has borrowed what. Every file of this package is here for a rule; see the README beside it."""

"""The version of this package, whichever distribution brought it."""

__version__ = "0.2.0"

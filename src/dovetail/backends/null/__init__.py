"""A backend that computes nothing: what remains is the cost of everything around a backend."""

from dovetail.backends.null.plugin import backend

__all__ = ["backend"]

"""Backends that come with Dovetail; loaded only through their entry points."""

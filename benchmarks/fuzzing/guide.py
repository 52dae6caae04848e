"""Fuzz one target, guided by coverage; the words are those of fuzzing.child.

A module of its own, since what is imported before atheris looks is code whose coverage nobody sees: reading graphs and
models was, by what fuzzing.child imports at its top.
"""

from __future__ import annotations


def main() -> None:
    """Instrument all of Dovetail that is imported from here on, and fuzz."""
    import atheris

    with atheris.instrument_imports(include=["dovetail"]):
        from fuzzing.child import main as fuzz
    fuzz()


if __name__ == "__main__":
    main()

"""dovetail formats: which files of other toolchains are written and read."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class Formats(Verb):
    """List the files of other toolchains that are written and read, and what each can say."""

    def run(self, screen: Screen) -> Answer:
        from dovetail.backend.project import ProjectStyle
        from dovetail.formats import known_formats
        from dovetail.report import Page, Prose, Table
        from dovetail.report.page import flexible, left

        known = known_formats()
        document = {
            "formats": [
                {
                    "name": form.name,
                    "title": form.title,
                    "pattern": form.pattern,
                    "granularity": form.granularity,
                    "base": [word.describe() for word in form.vocabulary.base],
                    "exceptions": [word.describe() for word in form.vocabulary.exceptions],
                    "listing": form.needs,
                }
                for form in known
            ],
            "projects": [{"name": style.value, "title": style.title} for style in ProjectStyle],
        }
        rows = tuple((form.name, form.title, form.pattern, form.needs or "-") for form in known)
        rows += tuple((style.value, style.title, "a folder", "-") for style in ProjectStyle)
        columns = (left("format"), flexible("whose"), flexible("usual name"), flexible("--listing"))
        words = tuple(
            f"{form.name}: {form.granularity}: {', '.join(word.text for word in form.vocabulary.exceptions)}"
            for form in known
        )
        blocks = (Table("", columns, rows), Prose("What an entry is about, and the words for exceptions", words))
        return Answer(document, Page("Formats", blocks))

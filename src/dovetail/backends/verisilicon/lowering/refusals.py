"""Why a part cannot run something."""

from __future__ import annotations

from dovetail.errors import CompileError


class LoweringRefusal(CompileError):
    """What a part does not run, and why."""

    def __init__(self, where: str, target: str, reason: str, *, always: bool = False) -> None:
        self.reason = reason
        self.always = always
        """Whether other attributes, constants and shapes would change nothing."""
        super().__init__(f"{where}: {target} cannot run it: {reason}.", hint="Place it on cpu.")

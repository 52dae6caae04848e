"""Sessions that tell which provider took what, and how long every operator took."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.backend.protocols import ExecutableAbilities, OperatorTime, Signature
from dovetail.backends.sessions import SessionExecutable, SessionSettings

_MAX_PROFILE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class OrtSettings:
    """How to open a session on a provider, whether to measure, and ONNX Runtime's name of the provider."""

    session: SessionSettings
    profiled: bool
    provider: str


class OrtExecutable(SessionExecutable):
    """Run a model on one provider."""

    def __init__(self, where: str, model: bytes, signature: Signature, how: OrtSettings) -> None:
        settings, profiled, self._provider = how.session, how.profiled, how.provider
        self._folder = tempfile.mkdtemp(prefix="dovetail-ort-") if profiled else ""
        self._times: tuple[OperatorTime, ...] | None = None
        try:
            profile = f"{self._folder}/profile" if profiled else ""
            super().__init__(where, model, signature, replace(settings, profile=profile))
        except Exception:
            self._remove()
            raise

    def account(self) -> Mapping[str, str]:
        """Map the operators, after ONNX Runtime's fusions, to the provider that took them."""
        session = self.open_session()
        if not hasattr(session, "get_provider_graph_assignment_info"):
            return {}
        return {
            node.name: self._where if str(part.ep_name) == self._provider else f"ort:{part.ep_name}"
            for part in session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        }

    def operator_times(self) -> Sequence[OperatorTime]:
        """Return what ONNX Runtime measured; the first call ends the measuring."""
        if self._times is None:
            self._times = _read_profile(Path(self.open_session().end_profiling())) if self._folder else ()
            self._remove()
        return self._times

    def abilities(self) -> ExecutableAbilities:
        """Return that it writes in place and gives an account."""
        return replace(super().abilities(), account=self.account, operator_times=self.operator_times)

    def close(self) -> None:
        """Free the session and its profile."""
        super().close()
        self._remove()

    def _remove(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _read_profile(path: Path) -> tuple[OperatorTime, ...]:
    """Return the last run of every operator in a profile; it has no others than the runs of one session."""
    if not path.is_file() or path.stat().st_size > _MAX_PROFILE_BYTES:
        return ()
    times: dict[str, OperatorTime] = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            facts = event.get("args", {})
            name = name.removesuffix("_kernel_time")
            elapsed = int(float(event["dur"]) * 1000)
            times[name] = OperatorTime(name, str(facts.get("op_name", "")), elapsed, str(facts.get("provider", "")))
    return tuple(times.values())

"""A server whose clock on the wall is set while it runs: answers stay right, certificates go by its clock."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import draws
import needs
import numpy as np
import pytest
import trustme
from served import inputs_for, served

import dovetail
from dovetail.errors import RemoteError
from dovetail.remote import BoardAccess, RemoteRuntime
from judges.torturers_of_machines import jumping_clock

_A_HUNDRED_YEARS_S = 3_155_760_000
_TIMES = 6


pytestmark = pytest.mark.slow


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    needs.program("cc", "compiler")
    library = jumping_clock(tmp_path)
    assert library is not None
    return library


def test_a_clock_that_jumps_changes_no_answer(clock: Path, tmp_path: Path, bundle: dovetail.Bundle) -> None:
    seed = draws.seed_of(__name__)
    sys.stdout.write(f"seed {seed}\n")
    dovetail.save_bundle(bundle, tmp_path / "models" / "small")
    jumps = ["env", f"LD_PRELOAD={clock}", f"JUMP_SEED={seed}", "JUMP_EVERY=2"]
    with served(tmp_path / "models", before=jumps) as server, dovetail.open_session(bundle) as session:
        for number in range(_TIMES):
            arrays = inputs_for(bundle, seed=number)
            with RemoteRuntime(BoardAccess(server.url)) as board, board.load(bundle) as model:
                assert np.array_equal(model.run(arrays).outputs["y"], session.run(arrays).outputs["y"])
        assert not [line for line in server.said if "Traceback" in line]


def test_certificates_are_over_for_a_server_that_is_ahead(clock: Path, tmp_path: Path, bundle: dovetail.Bundle) -> None:
    """It refuses the client in one line, and goes on; with the right clock the same files let it in."""
    ca = trustme.CA()
    authority, cert, key = (tmp_path / name for name in ("ca.pem", "both.pem", "both.key"))
    ca.cert_pem.write_to_path(authority)
    made = ca.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + timedelta(days=2))
    made.cert_chain_pems[0].write_to_path(cert)
    made.private_key_pem.write_to_path(key)
    dovetail.save_bundle(bundle, tmp_path / "models" / "small")
    options = ["--tls-cert", cert, "--tls-key", key, "--client-ca", authority]
    ahead = ["env", f"LD_PRELOAD={clock}", f"JUMP_BY={_A_HUNDRED_YEARS_S}"]
    for before in (ahead, ()):
        with served(tmp_path / "models", options, before=before) as server:
            access = BoardAccess(f"grpcs://{server.grpc}", None, authority, cert, key)
            with RemoteRuntime(access) as board:
                if before:
                    with pytest.raises(RemoteError) as caught:
                        board.devices()
                    assert len(str(caught.value).splitlines()) == 1
                else:
                    assert board.devices()

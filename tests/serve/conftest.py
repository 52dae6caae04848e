"""One server for many tests, with a model that every test leaves as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import Served, served, small_bundle

import dovetail


@pytest.fixture(scope="session")
def bundle() -> dovetail.Bundle:
    return small_bundle()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, bundle: dovetail.Bundle) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    dovetail.save_bundle(bundle, folder / "small")
    # Whatever tests do to this server, it has to end well.
    with served(folder) as found:
        yield found

"""Write src/dovetail/oip/messages.desc, the compiled form of the .proto files beside it (needs grpcio-tools)."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOM = Path(__file__).parents[1] / "src" / "dovetail" / "oip"
FILES = ("open_inference.proto", "board.proto")


def main() -> int:
    """Compile the files of the room into one set of descriptors."""
    return int(protoc.main(["protoc", f"-I{ROOM}", f"--descriptor_set_out={ROOM / 'messages.desc'}", *FILES]))


if __name__ == "__main__":
    sys.exit(main())

"""Write the board's wheel: `python -m dovetail.kit FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from dovetail.kit.wheel import write_board_wheel

if __name__ == "__main__":
    sys.stdout.write(f"{write_board_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else 'dist'))}\n")

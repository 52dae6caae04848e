"""Run the command line as `python -m dovetail.cli`."""

import sys

from dovetail.cli.start import main

sys.exit(main())

"""Random nets, asked of ctrlgrad and of Caffe2, and judged by their numbers."""

import sys
from pathlib import Path

# pytest has this path from its settings; the command `python -m tests.oracle...` has not.
sys.path.append(str(Path(__file__).resolve().parent.parent / "support"))

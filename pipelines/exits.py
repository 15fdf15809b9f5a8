"""Exit codes of the command ``mmpca``."""

FAILED = 1
"""An unforeseen error."""

REFUSED = 2
"""Of a user's mistake."""

INTERRUPTED = 130
"""Of Ctrl-C, as shells have it: 128 and the number of the signal."""

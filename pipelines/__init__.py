"""Prefect flows and the command ``mmpca``, with its exit codes."""

FAILED = 1
"""An unforeseen error."""
REFUSED = 2
"""A mistake of the user's."""
ALARM = 3
"""Rows that were monitored do not belong, or moved."""
UNREACHABLE = 75
"""A network, store or cluster failed, which may pass: ``EX_TEMPFAIL`` of sysexits.h."""
INTERRUPTED = 130
"""Ctrl-C, as in shells: 128 and the number of the signal."""

"""Plans: passes, bytes, operations, memory, disk space and time of a job, before it reads a row."""

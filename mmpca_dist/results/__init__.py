"""Results, computed and said once: numbers, tables, sentences and notes as data that all pages and lists show."""

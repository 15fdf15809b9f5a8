"""Row maps: what is done to every row as it is read, before anything else sees it; one file a map."""

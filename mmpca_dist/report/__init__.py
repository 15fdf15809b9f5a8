"""Reports: one HTML file each, with embedded pictures."""

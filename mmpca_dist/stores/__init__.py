"""Where data lie: paths and URLs, object stores, retries, leases, checksums."""

"""Server-side apply, managed fields and patch formats."""

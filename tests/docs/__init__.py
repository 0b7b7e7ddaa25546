"""Tests of the documents: links, generated pages, and blocks that run."""

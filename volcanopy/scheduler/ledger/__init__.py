"""The session's mutable columns, and the views of them that plugins and actions read."""

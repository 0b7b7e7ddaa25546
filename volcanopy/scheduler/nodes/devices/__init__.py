"""Dynamic resource allocation: device claims, their requests and CEL selectors."""

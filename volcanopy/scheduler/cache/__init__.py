"""API objects in, snapshots out, incrementally."""

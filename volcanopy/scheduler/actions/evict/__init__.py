"""preempt, reclaim, gangpreempt and gangreclaim: placing tasks on resources that evictions free."""

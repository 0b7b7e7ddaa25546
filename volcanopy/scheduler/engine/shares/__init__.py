"""Queue arithmetic: fair shares, borrowing, guarantees and demand."""

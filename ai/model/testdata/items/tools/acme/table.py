"""A table that tools read; it is none itself. The name executor_id = stands here in prose."""

ROWS = [1, 2, 3]

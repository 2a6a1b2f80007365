"""What a Dag file says: names, values, tasks, dependencies, stores. Knows no rule."""

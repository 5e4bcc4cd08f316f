"""Running a registered function within its request: context, dependencies, threads, limits."""

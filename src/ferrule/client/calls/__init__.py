"""What a client asks and what it answers: calls, tasks, subscriptions, questions."""

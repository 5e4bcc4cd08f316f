"""Sampling and questions of servers, answered by the model of a provider."""

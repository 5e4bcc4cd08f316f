"""The client's side: discovery, registration, grants, tokens, and the object that `Client(auth=…)` takes."""

"""The checks of `ferrule doctor`, one module for each kind of target; `findings` has the type of a result."""

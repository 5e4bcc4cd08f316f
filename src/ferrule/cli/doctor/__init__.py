"""What `ferrule doctor` tries, one module per kind of target; `findings` says what a finding is."""

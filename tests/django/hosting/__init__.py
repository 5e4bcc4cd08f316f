"""An application for tests of hosts: functions that show where they run, and what they leave in the database."""

"""What the external services' documents say, for operators and triggers alike."""

"""Frame encoders: pictures to features, each with its own preprocessing and manifest."""

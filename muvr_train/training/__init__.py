"""Training with Lightning: module, checkpoints, evaluation during training. The only room that knows Lightning."""

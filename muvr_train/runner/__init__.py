"""What the entry points run. The only room that knows Hydra; each function reads like a table of contents."""

from muvr_train.runner.evaluate_run import evaluate
from muvr_train.runner.train_run import train

__all__ = ["evaluate", "train"]

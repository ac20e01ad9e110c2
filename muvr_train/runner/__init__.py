"""What the entry points run. The only room that knows Hydra; each function reads like a table of contents."""

from __future__ import annotations

from omegaconf import DictConfig

from muvr_train.preflight.questions import asks_questions


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Evaluate what a config says; give the flat metrics. Questions to an answerer need no torch."""
    if asks_questions(cfg):
        from muvr_train.runner.ask_run import ask_and_score

        return ask_and_score(cfg)
    from muvr_train.runner import evaluate_run

    return evaluate_run.evaluate(cfg)


def train(cfg: DictConfig) -> dict[str, float]:
    """Train what a config says; give the flat metrics. Mistakes are told before Lightning, which loads slowly."""
    from muvr_train.runner.refusals import try_settings

    try_settings(cfg)
    from muvr_train.runner import train_run

    return train_run.train(cfg)

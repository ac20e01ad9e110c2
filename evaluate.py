"""Evaluate: python evaluate.py ckpt_path=checkpoints/NAME/best.ckpt. The steps are in muvr_train/runner.py."""

from muvr_train.evaluate import main

if __name__ == "__main__":
    main()

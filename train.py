"""Train: python train.py experiment=s2vs_evaclip. The settings are in configs/, the steps in muvr_train/runner.py."""

from muvr_train.train import main

if __name__ == "__main__":
    main()

"""What every fusion head, similarity network and loss must keep to, as checks for tests (see `muvr_train.testing`)."""

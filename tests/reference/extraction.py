"""Feature extraction the slow way: decode every frame, pick, one forward pass for each picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import torch


def slow_features(path: Path, encoder: Any, count: int) -> np.ndarray:
    """The model's own features [T, 1, D] of `count` frames from the centres of equal parts of a video."""
    with av.open(str(path)) as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    total = len(frames)
    picked = frames if total <= count else [frames[int((part + 0.5) * total / count)] for part in range(count)]
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (encoder.mean, encoder.std))
    rows = []
    for frame in picked:
        picture = torch.from_numpy(encoder.preprocess(frame[None])[0]).permute(2, 0, 1) / 255
        rows.append(encoder.model(((picture - mean) / std)[None]))
    return np.asarray(torch.stack(rows).numpy())

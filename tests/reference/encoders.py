"""Slow, plain twins of what encoders do, one frame and one region at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import open_clip
import torch
from PIL import Image


def clip_frames(model: Any, frames: np.ndarray) -> np.ndarray:
    """Embeddings [T, D] by open_clip's own inference transform and `encode_image`, a frame at a time."""
    cfg = open_clip.transform.PreprocessCfg(**model.visual.preprocess_cfg)
    transform = open_clip.transform.image_transform_v2(cfg, is_train=False)
    with torch.no_grad():
        return np.stack([model.encode_image(transform(Image.fromarray(frame))[None])[0].numpy() for frame in frames])


def clip_text_of_windows(model: Any, tokenizer: Any, text: str) -> np.ndarray:
    """The mean of the unit embeddings of a text's windows: as few as hold all tokens, the longer ones first."""
    tokens, room = tokenizer.encode(text), tokenizer.context_length - 2
    count = max(1, (len(tokens) + room - 1) // room)
    vectors = []
    while count:
        length = (len(tokens) + count - 1) // count
        row = [tokenizer.sot_token_id, *tokens[:length], tokenizer.eot_token_id]
        row += [0] * (tokenizer.context_length - len(row))
        with torch.no_grad():
            vector = model.encode_text(torch.tensor([row]))[0].numpy()
        vectors.append(vector / np.linalg.norm(vector))
        tokens, count = tokens[length:], count - 1
    return np.mean(vectors, axis=0)


def l3_imac(stages: list[np.ndarray]) -> np.ndarray:
    """[9, sum of C] of four maps [C, H, W] of a 224-pixel picture: regions as in the paper, written out."""
    places = {
        56: [(0, 28), (14, 42), (28, 56)],
        28: [(0, 14), (7, 21), (14, 28)],
        14: [(0, 6), (3, 9), (6, 12)],
        7: [(0, 3), (2, 5), (4, 7)],
    }
    regions = []
    for row in range(3):
        for column in range(3):
            parts = []
            for stage in stages:
                top, bottom = places[stage.shape[1]][row]
                left, right = places[stage.shape[2]][column]
                peak = stage[:, top:bottom, left:right].max(axis=(1, 2))
                parts.append(peak / np.linalg.norm(peak))
            vector = np.concatenate(parts)
            regions.append(vector / np.linalg.norm(vector))
    return np.stack(regions)


def pca_whitened(sample: np.ndarray, x: np.ndarray, dim: int, damping: float = 1e-3) -> np.ndarray:
    """Unit vectors of x [m, D] whitened by the principal components of a sample [n, D], up to signs of the columns."""
    mean = sample.mean(axis=0)
    covariance = (sample - mean).T @ (sample - mean) / len(sample)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    y = (x - mean) @ vectors / np.sqrt(values + damping * np.trace(covariance) / len(covariance))
    return y / np.linalg.norm(y, axis=1, keepdims=True)

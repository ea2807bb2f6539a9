"""How good generated Fashion-MNIST pictures are.

    tests/e2e/quality.py SAMPLES.safetensors [DATA_DIR]

SAMPLES holds pictures [N, 1, 32, 32] f32 in [-1, 1] and labels [N] i64, as
`diffrun sample --tensors` writes them. Three questions, each with its bound:
  agreement   share of pictures whose nearest training picture has the asked-for
              label (at least 0.65)
  copies      pictures nearer than rms 0.03 (in [0, 1], 28x28) to a training
              picture (none)
  diversity   mean distance between pictures of a class, over the training set's
              (at least 0.5)
Needs numpy. Exit code 1 if a bound is missed.
"""
import gzip
import json
import struct
import sys
from pathlib import Path

import numpy as np

DATA = Path("/usr/share/datasets/fashion-mnist")


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of unsigned bytes, gzip'ed or plain."""
    raw = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    rank = raw[3]
    shape = struct.unpack(f">{rank}I", raw[4:4 + 4 * rank])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_samples(path: Path) -> tuple:
    """Pictures [N, 784] in [0, 1] and labels [N]."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])

    def tensor(name, dtype):
        begin, end = header[name]["data_offsets"]
        return np.frombuffer(raw[8 + size + begin:8 + size + end], dtype).reshape(
            header[name]["shape"])

    pictures = tensor("pictures", np.float32)[:, 0, 2:30, 2:30]
    return np.clip((pictures.reshape(len(pictures), -1) + 1) / 2, 0, 1), tensor("labels", np.int64)


def mean_distance(x: np.ndarray) -> float:
    """Mean rms distance between two different rows of x [n, pixels]."""
    square = (x ** 2).sum(1)
    distance = np.sqrt(np.maximum(square[:, None] + square[None] - 2 * x @ x.T, 0) / x.shape[1])
    n = len(x)
    return distance.sum() / (n * (n - 1))


def main() -> int:
    pictures, labels = read_samples(Path(sys.argv[1]))
    data = Path(sys.argv[2]) if len(sys.argv) > 2 else DATA
    find = lambda stem: next(data.glob(stem + "*"))  # noqa: E731
    train = read_idx(find("train-images-idx3-ubyte")).reshape(-1, 784).astype(np.float32) / 255
    train_labels = read_idx(find("train-labels-idx1-ubyte"))

    train_square = (train ** 2).sum(1)
    agree, nearest = 0, []
    for start in range(0, len(pictures), 64):
        x = pictures[start:start + 64]
        square = (x ** 2).sum(1)[:, None] + train_square[None] - 2 * x @ train.T
        best = square.argmin(1)
        nearest += np.sqrt(np.maximum(square[np.arange(len(x)), best], 0) / 784).tolist()
        agree += int((train_labels[best] == labels[start:start + 64]).sum())

    ours, theirs = [], []
    for label in np.unique(labels):
        mine = pictures[labels == label]
        if len(mine) > 1:
            ours.append(mean_distance(mine))
            theirs.append(mean_distance(train[train_labels == label][:500]))
    agreement = agree / len(pictures)
    copies = sum(distance < 0.03 for distance in nearest)
    diversity = float(np.mean(ours) / np.mean(theirs))
    print(f"{len(pictures)} pictures: agreement {agreement:.3f} (at least 0.65), copies {copies} "
          f"(none; nearest {min(nearest):.4f}), diversity {diversity:.3f} (at least 0.5)")
    return 0 if agreement >= 0.65 and copies == 0 and diversity >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
